"""What both models are built of."""

from .attention import Attention, attend
from .blocks import FeedForward, TransformerBlock, activation_function
from .contrast import candidate_loss, contrastive_loss
from .drop_path import DropPath
from .pooling import AttentionPool
from .precision import with_weights_in
from .rotary import Rotary, rotary_angles

__all__ = [
    "Attention",
    "AttentionPool",
    "DropPath",
    "FeedForward",
    "Rotary",
    "TransformerBlock",
    "activation_function",
    "attend",
    "candidate_loss",
    "contrastive_loss",
    "rotary_angles",
    "with_weights_in",
]
