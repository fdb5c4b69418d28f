"""Server-sent events: that something is new, and what in few words; pages then ask for the rest."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from aiohttp import web

from repotrial._core.errors import RepoTrialError
from repotrial.viewer._state import ViewerState

_POLL_SECONDS: Final = 0.5
_BEAT_SECONDS: Final = 15
_MOST_LISTENERS: Final = 64


class LiveRoom:
    """Tells listening pages what is new."""

    def __init__(self, state: ViewerState) -> None:
        self._state = state
        self._listeners = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Stay connected, and say each change once."""
        if self._listeners >= _MOST_LISTENERS:
            return web.Response(status=503, text="Too many pages listen.\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._state.guard.dress(response)
        await response.prepare(request)
        self._listeners += 1
        try:
            await self._tell(response, request.query.get("room", ""))
        except (ConnectionResetError, asyncio.CancelledError):  # the page is closed
            pass
        finally:
            self._listeners -= 1
        return response

    async def _tell(self, response: web.StreamResponse, room: str) -> None:
        await response.write(b": listening\n\n")
        known = await asyncio.to_thread(self._look, room)
        silent = 0.0
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            silent += _POLL_SECONDS
            now = await asyncio.to_thread(self._look, room)
            if now != known:
                words = _describe(known, now)
                await response.write(f"event: changed\ndata: {json.dumps({'words': words})}\n\n".encode())
                known, silent = now, 0.0
            elif silent >= _BEAT_SECONDS:  # a connection that is lost shows by this
                await response.write(b": still here\n\n")
                silent = 0.0

    def _look(self, room: str) -> tuple[int, str]:
        """Events of a run and its state; of a list, the number of its version and of runs that wait."""
        row = None if room == "list" else self._state.catalog.load(room)
        if row is None:
            return self._state.catalog.version, str(self._state.count_waiting())
        try:
            return self._state.open_index(Path(row.path)).refresh(), row.state
        except RepoTrialError:  # no trace yet
            return 0, row.state


def _describe(before: tuple[int, str], now: tuple[int, str]) -> str:
    if now[1] != before[1] and not now[1].isdecimal():
        return f"The run is now: {now[1]}"
    if now[1].isdecimal():
        return "The list has changed"
    more = now[0] - before[0]
    return f"{more} new event{'' if more == 1 else 's'}"
