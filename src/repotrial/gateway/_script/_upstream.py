"""A script as an upstream, and how it is read from a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import Problem, check_document, render_problems
from repotrial.gateway._model import UpstreamAnswer, UpstreamRequest
from repotrial.gateway._script._plan import estimate_input, plan_turn
from repotrial.gateway._script._script import SCRIPT_SCHEMA, Script
from repotrial.wire import build_answer, build_token_count

_MAX_BYTES: Final = 4 * 1024 * 1024
_WORKSPACE: Final = "/workspace"
"""Where agents see their files."""


SCRIPT_INVALID = ErrorCode(
    "script-invalid",
    UsageError,
    "A script for the canned model has problems that make it unusable. All of them are listed.",
    hint='fix the listed problems; a script is TOML with schema = "repotrial/script@1" and [[steps]]',
)


class ScriptUpstream:
    """A canned model that drives any agent that calls tools. It keeps no state between requests.

    Args:
        script: What it does.
        digest: Over the bytes of the script's file.
    """

    def __init__(self, script: Script, digest: Digest) -> None:
        self.script = script
        self._digest = digest

    @property
    def description(self) -> str:
        return f"script {self._digest}"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Answer with the step that follows on what the request already holds."""
        parsed = request.parsed
        if parsed.is_count_only:
            built = build_token_count(parsed.dialect, estimate_input(parsed))
        else:
            plan = plan_turn(self.script, parsed, workspace=_WORKSPACE)
            if plan.delay_ms:
                await asyncio.sleep(plan.delay_ms / 1000)
            built = build_answer(parsed, plan.turn)
        return UpstreamAnswer(status=built.status, headers=built.headers, chunks=_iterate(built.chunks))

    async def close(self) -> None:
        """Nothing is open."""


async def _iterate(chunks: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def load_script(path: Path) -> ScriptUpstream:
    """Read a script.

    Raises:
        SCRIPT_INVALID: it cannot be read or is not sound; every problem is listed.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _build_invalid(_problem(path, f"expected a file, found: {error.strerror}")) from error
    if len(data) > _MAX_BYTES:
        raise _build_invalid(_problem(path, f"expected at most {_MAX_BYTES} bytes, found more"))
    script, problems = check_document(data, file=path.name, model=Script, schema=SCRIPT_SCHEMA)
    if script is None or problems:
        raise _build_invalid(*problems)
    return ScriptUpstream(script, digest_bytes(data))


def _build_invalid(*problems: Problem) -> UsageError:
    return SCRIPT_INVALID.error(render_problems("script", problems), details=problems)


def _problem(path: Path, message: str) -> Problem:
    return Problem(code="file-unreadable", severity="error", file=path.name, message=message)
