"""What all pictures share: fonts for any script, colours, and the way to bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["FAINT", "GRID", "INK", "as_image", "drawing", "text_width"]

_DPI = 130
INK, FAINT, GRID = "#1d2530", "#66707c", "#e6e9ed"
_FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans", "Hiragino Sans", "Yu Gothic", "Microsoft YaHei", "Noto Emoji")


@contextmanager
def drawing() -> Iterator[None]:
    """Within it, text is drawn as it stands, in fonts that know most scripts, and the same figure gives the same SVG."""
    families = [name for name in _FONTS if name in font_manager.get_font_names()]
    with matplotlib.rc_context({"font.family": families or ["sans-serif"], "text.parse_math": False, "svg.hashsalt": "watchword"}):
        yield


def text_width(text: str, *, size: float, bold: bool = False) -> float:
    """How wide the text will be, in inches. Call it within ``drawing``."""
    figure = Figure(figsize=(1, 1), dpi=_DPI)
    written = figure.text(0, 0, text, size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        return float(written.get_window_extent(renderer).width) / _DPI


def as_image(figure: Figure, format: str) -> bytes:
    """The figure as ``png``, ``jpg``, ``svg`` or ``pdf``. Call it within ``drawing``."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a character no installed font has is drawn as a box
        figure.savefig(out, format=format, metadata={"Date": None} if format == "svg" else None)
    return out.getvalue()
