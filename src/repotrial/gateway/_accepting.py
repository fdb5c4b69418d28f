"""The end of a listener, without losing those who came at that moment."""

from __future__ import annotations

import asyncio


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nobody any more; whoever was accepted has reached its protocol when this returns.

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
