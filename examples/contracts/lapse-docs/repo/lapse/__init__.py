"""Durations as people write them."""

from lapse.duration import DurationError, parse, render
from lapse.spread import backoff, split

__all__ = ["DurationError", "backoff", "parse", "render", "split"]
