"""Samples for training and evaluation."""

from .order import Position, batches

__all__ = ["Position", "batches"]
