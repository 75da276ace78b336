"""Strings to token ids."""

from __future__ import annotations

from .clip import CONTEXT_LENGTH, END_TOKEN, START_TOKEN, VOCAB_SIZE, clean, encode, tokenize

__all__ = ["CONTEXT_LENGTH", "END_TOKEN", "START_TOKEN", "VOCAB_SIZE", "clean", "encode", "tokenize"]
