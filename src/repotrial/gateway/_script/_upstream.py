"""The script as somebody who answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from repotrial.gateway._model import UpstreamAnswer, UpstreamRequest
from repotrial.gateway._script._load import LoadedScript
from repotrial.gateway._script._plan import estimate_input, plan_turn
from repotrial.gateway._wire._build import build_answer
from repotrial.gateway._wire._build._plain import build_token_count

_WORKSPACE: Final = "/workspace"


class ScriptUpstream:
    """A canned model that drives any agent that calls tools. It keeps no state between requests.

    Args:
        loaded: The script.
        workspace: Where the agent sees its files.
    """

    def __init__(self, loaded: LoadedScript, *, workspace: str = _WORKSPACE) -> None:
        self._loaded = loaded
        self._workspace = workspace

    @property
    def description(self) -> str:
        return f"script {self._loaded.digest}"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Answer with the step that follows on what the request already holds."""
        if request.parsed.is_count_only:
            answer = build_token_count(request.parsed.dialect, estimate_input(request.parsed))
            return UpstreamAnswer(
                status=answer.status, headers=answer.headers, chunks=_iterate((answer.body,))
            )
        plan = plan_turn(self._loaded.script, request.parsed, workspace=self._workspace)
        if plan.delay_ms:
            await asyncio.sleep(plan.delay_ms / 1000)
        built = build_answer(request.parsed, plan.turn)
        return UpstreamAnswer(status=built.status, headers=built.headers, chunks=_iterate(built.chunks))

    async def close(self) -> None:
        """Nothing is open."""


async def _iterate(chunks: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
