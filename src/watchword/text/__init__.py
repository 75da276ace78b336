"""Strings to token ids."""

from __future__ import annotations

from .clip import CONTEXT_LENGTH, END_TOKEN, START_TOKEN, VOCAB_SIZE, clean, encode, tokenize
from .huggingface import tokenize_with

__all__ = ["CONTEXT_LENGTH", "END_TOKEN", "START_TOKEN", "VOCAB_SIZE", "clean", "encode", "tokenize", "tokenize_with"]
