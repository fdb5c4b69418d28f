"""The gateway: the agent's only way out, metered on the wire (P9, P14, P21, P22)."""

from __future__ import annotations

__all__: list[str] = []
