"""Answers of all dialects, read while they come."""

from __future__ import annotations

from repotrial.run._gateway._wire._answers._reader import AnswerReader

__all__ = ["AnswerReader"]
