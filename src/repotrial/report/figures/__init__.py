"""The one way of drawing: SVG that a page holds or a file keeps, each with its numbers as a table."""

from __future__ import annotations
