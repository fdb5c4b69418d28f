"""Long work beside the loop: what takes long for one run must not keep the others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

HEAVY_BYTES: Final = 128 * 1024
"""From this size on a body is worked on in a thread; what is smaller takes some milliseconds at most."""


async def work_aside(
    size: int, work: Callable[Parameters, Value], *args: Parameters.args, **named: Parameters.kwargs
) -> Value:
    """Do work on so many bytes, which keeps no state, in a thread where they are many."""
    if size < HEAVY_BYTES:
        return work(*args, **named)
    return await asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **named))
