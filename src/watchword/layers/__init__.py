"""What both models are built of."""

from .attention import Attention, attend
from .blocks import FeedForward, TransformerBlock, activation_function
from .contrast import contrastive_loss
from .drop_path import DropPath

__all__ = ["Attention", "DropPath", "FeedForward", "TransformerBlock", "activation_function", "attend", "contrastive_loss"]
