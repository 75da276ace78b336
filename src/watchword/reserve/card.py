"""The card of a folder of MERLOT Reserve weights: what they are, where they come from, what they are for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .config import ReserveConfig, kind_of, size_of

__all__ = ["Origin", "model_card"]

_PURPOSE = {
    "pretrained": "Fills blanks in statements about a video from a list of options, from its frames, subtitles and sound; embeds frames, "
    "sounds, text spans and whole videos; a start for finetuning.",
    "finetuned on VCR": "Chooses among answers, or rationales, to a question about a picture (VCR).",
    "finetuned on TVQA": "Chooses among answers to a question about a video with subtitles or sound (TVQA).",
    "finetuned on classes": "Tells which of the classes in `config.json` a video shows, from its frames and sound, or frames alone.",
    "custom": "What its parts allow: without span encoder and head no blanks are filled, without `proj` no choices are scored.",
}


@dataclass(frozen=True)
class Origin:
    """The authors' file that weights were converted from: its name, size in bytes, SHA-256 and the training step it states."""

    name: str
    num_bytes: int
    sha256: str
    step: int

    @classmethod
    def of(cls, path: str | Path, *, step: int) -> Origin:
        """Reads the whole file, for the hash."""
        path = Path(path)
        with path.open("rb") as file:
            return cls(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest(), step)


def model_card(config: ReserveConfig, num_parameters: int, origin: Origin | None, *, trained: bool) -> str:
    """Markdown with the Hub's header. ``origin`` is None for weights that are not of the authors' files."""
    kind, size = kind_of(config.parts), size_of(config)
    (rows, columns), side = config.grid, config.patch_size
    layers = {"vision": config.vision_layers, "joint": config.joint_layers}
    layers |= {part: getattr(config, f"{part}_layers") for part in ("audio", "span") if f"{part}_encoder" in config.parts}
    table = {
        "weights": f"{kind if trained else 'untrained'}, {config.weights}",
        "size": f"{size}: {num_parameters / 1e6:,.1f} million parameters, {config.width} wide, layers: "
        + ", ".join(f"{part} {count}" for part, count in layers.items()),
        "frames": f"grid {rows} x {columns} of {side}-pixel patches: {rows * side} x {columns * side} pixels (free to choose)",
        "positions": {"released": "rotary as released", "standard": "standard rotary"}[config.rotary]
        if not config.learned_positions
        else f"{config.learned_positions} learned",
    }
    if origin is not None:
        table["source file"] = f"`{origin.name}`, {origin.num_bytes:,} bytes, step {origin.step}"
        table["its SHA-256"] = f"`{origin.sha256}`"
    if not trained:
        table["note"] = "**untrained: random numbers**"
    lines = ["---", "library_name: watchword", "tags: [merlot-reserve, video, audio, subtitles]", "---", ""]
    lines += [f"# MERLOT Reserve, {size}, {kind if trained else 'untrained'}", "", _PURPOSE[kind], "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in table.items()]
    return "\n".join([*lines, "", *_USE, "", _LICENCE[origin is not None], ""])


_USE = (
    "```python",
    "from watchword import Reserve",
    "",
    'model = Reserve.from_pretrained("PATH OF THIS FOLDER")',
    "```",
    "",
    "`config.json` and `model.safetensors` are the model, `tokenizer.json` (where there is one) is the vocabulary in the format of the",
    "`tokenizers` library. `watchword convert FOLDER FILE --to released` writes the msgpack file that the authors' code reads.",
    "",
    "The method: MERLOT Reserve, arXiv 2201.02639. It was made for research; what it says of people in videos can be wrong and biased.",
)
_LICENCE = {
    True: "Licence: the authors' code and the vocabulary are under the MIT License. They state no licence for the weights, so ask them "
    "before you pass the weights on.",
    False: "Licence: the vocabulary is under the MIT License (MERLOT Reserve's authors); the weights are whose training made them.",
}
