"""Scripts from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import Problem, check_document, render_problems
from repotrial.gateway._script._model import SCRIPT_SCHEMA, Script

_MAX_BYTES: Final = 4 * 1024 * 1024


SCRIPT_INVALID = ErrorCode(
    "script-invalid",
    UsageError,
    "A script for the canned model has problems that make it unusable. All of them are listed.",
    hint='mend what is listed; a script is TOML with schema = "repotrial/script@1" and [[steps]]',
)


def _build_invalid(problems: Iterable[Problem]) -> UsageError:
    listed = tuple(problems)
    return SCRIPT_INVALID.error(render_problems("script", listed), details=listed)


class LoadedScript(msgspec.Struct, frozen=True, kw_only=True):
    """A script and what it was read from."""

    script: Script
    digest: Digest
    """Over the bytes of the file."""


def load_script(path: Path) -> LoadedScript:
    """Read a script.

    Raises:
        SCRIPT_INVALID: it cannot be read or is not sound; every problem is listed.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _build_invalid([_problem(path.name, f"expected a file, found: {error.strerror}")]) from error
    return parse_script(data, file=path.name)


def parse_script(data: bytes, *, file: str) -> LoadedScript:
    """Read a script from its bytes.

    Raises:
        SCRIPT_INVALID: it is not sound; every problem is listed.
    """
    if len(data) > _MAX_BYTES:
        raise _build_invalid([_problem(file, f"expected at most {_MAX_BYTES} bytes, found more")])
    script, problems = check_document(data, file=file, model=Script, schema=SCRIPT_SCHEMA)
    if script is None or problems:
        raise _build_invalid(problems)
    return LoadedScript(script=script, digest=digest_bytes(data))


def _problem(file: str, message: str) -> Problem:
    return Problem(code="file-unreadable", severity="error", file=file, message=message)
