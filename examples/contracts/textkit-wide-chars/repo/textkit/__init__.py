"""Lays out text for terminals: wrapping, padding, tables."""

from textkit.columns import table
from textkit.width import clip, display_width, pad
from textkit.wrap import fill, shorten, wrap

__all__ = ["clip", "display_width", "fill", "pad", "shorten", "table", "wrap"]
