"""MERLOT Reserve (arXiv 2201.02639): frames, words and sound of a video, and the blanks to fill in."""

from __future__ import annotations

from .config import GRIDS, RESERVE_SIZES, ReserveConfig
from .model import JointOutput, Reserve, ReserveOutput
from .transformer import EncoderOutput
from .vectors import unit_normalize

__all__ = ["EncoderOutput", "GRIDS", "JointOutput", "RESERVE_SIZES", "Reserve", "ReserveConfig", "ReserveOutput", "unit_normalize"]
