"""Did the agent find the right files, use them, and did it matter? (R1-R19)."""

from __future__ import annotations

__all__: list[str] = []
