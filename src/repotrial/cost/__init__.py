"""What runs consume and what it costs: usage, prices, amounts that know their source (P21, P22, B1-B4)."""

from __future__ import annotations

from repotrial.cost._usage import Usage

__all__ = ["Usage"]
