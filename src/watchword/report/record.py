"""Measurements on record: a Markdown page whose tables stand under the command, the date and the machine that made them."""

from __future__ import annotations

import os
import platform
import re
import sys
from datetime import date
from importlib import metadata
from pathlib import Path

from ..devices import num_cores
from ..files import write_text

__all__ = ["has_bfloat16", "machine", "made_by", "write_section"]

PACKAGES = ("watchword", "torch", "torchvision", "transformers", "av", "torchcodec", "decord2", "librosa", "jax", "flax", "numpy")


def write_section(page: str | Path, heading: str, command: str, text: str) -> None:
    """Write a section of a page, in place of its section of this heading if it has one; all others stay as they are."""
    page = Path(page)
    old = page.read_text(encoding="utf-8") if page.exists() else f"# {page.stem.replace('_', ' ').capitalize()}\n"
    title, *sections = re.split(r"^(?=## )", old, flags=re.MULTILINE)
    lines = [f"## {heading}", "", *made_by(command), "", text.strip()]
    new = "\n".join(lines) + "\n"
    place = next((i for i, section in enumerate(sections) if section.splitlines()[0] == lines[0]), len(sections))
    sections[place : place + 1] = [new]
    write_text(page, "\n\n".join(part.strip() for part in (title, *sections)) + "\n")


def made_by(command: str) -> list[str]:
    """Lines of a list that say how, when and on what something was measured."""
    return [
        f"- Command: `{command}`",
        f"- Date: {date.today().isoformat()}",
        *(f"- {name}: {value}" for name, value in machine().items()),
    ]


def machine() -> dict[str, str]:
    """The machine in words, without a name or a path of it."""
    load = f", load {os.getloadavg()[0]:.1f} when this was written" if hasattr(os, "getloadavg") else ""
    return {
        "Processor": f"{_processor()}, {num_cores()} cores{', bfloat16' if has_bfloat16() else ''}{load}",
        "System": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "Versions": ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name))),
    }


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware (x86: AVX-512 BF16 or AMX; Arm: BF16)."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"}.intersection(_cpu_info("flags", "Features").split()))


def _processor() -> str:
    return _cpu_info("model name") or platform.processor() or sys.platform


def _cpu_info(*keys: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() in keys:
            return value.strip()
    return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
