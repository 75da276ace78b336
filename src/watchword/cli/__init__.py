"""The command line: one module a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from ..errors import WatchwordError
from . import ask, convert, data, demo, evaluate, expand, fill, models, prepare, pretrain_demo, probe, sweep, tag, train
from .notes import say

__all__ = ["app", "main"]

USAGE_ERROR = 2
INTERRUPTED = 130
_GLOBAL_FLAGS = ("--debug", "--offline")

app = typer.Typer(name="watchword", no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
COMMANDS = (
    tag.tag, fill.fill, ask.ask,
    probe.probe, models.models, convert.convert, expand.expand, demo.demo, prepare.prepare, train.train, sweep.sweep, evaluate.evaluate,
    pretrain_demo.pretrain_demo,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version."),
    offline: bool = typer.Option(False, "--offline", help="Never use the network, as HF_HUB_OFFLINE=1. May stand anywhere."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error. May stand anywhere."),
) -> None:
    """Name what happens in videos, in your own words."""
    if version:
        from importlib.metadata import version as installed

        print(f"watchword {installed('watchword')}")
        raise typer.Exit
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit code: 0 done, 1 some inputs failed, 2 wrong usage or nothing usable, 130 interrupted."""
    given = _global_flags_first(list(sys.argv[1:] if arguments is None else arguments))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="watchword.escape")
    try:
        code = app(given, prog_name="watchword", standalone_mode=False, obj=given)  # results say by which command they were made
        sys.stdout.flush()
    except (WatchwordError, TyperException) as error:
        if "--debug" in given:
            raise
        _say(error, given)
        return USAGE_ERROR
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as error:  # what a command does not expect: a full disk, an output that is gone
        if "--debug" in given:
            raise
        if error.filename is None:  # its rest would fail again when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whoever read our output has seen enough
            say(f"watchword: cannot write {repr(error.filename) if error.filename else 'the output'}: {error.strerror}")
        return 1
    return code if isinstance(code, int) else 0


def _say(error: WatchwordError | TyperException, given: Sequence[str]) -> None:
    text = error.format_message() if isinstance(error, TyperException) else str(error)
    if isinstance(error, TyperException) and (
        file := next((name for name in given if name.startswith("-") and os.path.isfile(name)), None)
    ):
        text += f" (for the file of this name write {os.path.join(os.curdir, file)!r})"
    text = text.replace(": Value error, ", ": ")  # what the parser of options puts before its own message
    say(f"watchword: {' '.join(text.split())}")
    for more in getattr(error, "__notes__", ()):
        say(more)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """What the output's encoding does not have as JSON writes it, so that JSON stays JSON and other results stay unambiguous."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2)), error.end


codecs.register_error("watchword.escape", _escape)


def _global_flags_first(arguments: list[str]) -> list[str]:
    """The arguments with flags that belong to no single command in front, where the parser wants them."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [argument for argument in arguments[:end] if argument in _GLOBAL_FLAGS]
    return flags + [argument for argument in arguments[:end] if argument not in _GLOBAL_FLAGS] + arguments[end:]
