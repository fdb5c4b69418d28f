"""Work in threads, so that one run does not delay others; listeners that end without losing connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar


async def stop_listening(server: asyncio.Server) -> None:
    """Stop accepting; connections already accepted are connected to their protocol on return.

    asyncio accepts in one step and makes the transport in a later one. Where the server is closed between the
    two, making it fails, and the connection stays open until it is collected.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener)
    await settle_accepted()
    server.close()


async def settle_accepted() -> None:
    """Let connections that were accepted reach their protocols."""
    await asyncio.sleep(0)  # their transports are made
    await asyncio.sleep(0)  # their protocols are told


Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

HEAVY_BYTES: Final = 128 * 1024
"""From this size on a body is worked on in a thread; what is smaller takes some milliseconds at most."""


async def run_in_thread_if_large(
    size: int, work: Callable[Parameters, Value], *args: Parameters.args, **named: Parameters.kwargs
) -> Value:
    """Do work on so many bytes, which keeps no state, in a thread where they are many."""
    if size < HEAVY_BYTES:
        return work(*args, **named)
    return await asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **named))
