"""Requests of `run start`, kept beside the runs: what a cause excuses can be repeated by that alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import write_atomic
from repotrial.api._trials import TrialRequest
from repotrial.score import Cause

_NAME: Final = ".requests.jsonl"

NO_REQUEST = ErrorCode(
    "no-request",
    UsageError,
    "The directory of runs does not say with which command they were started.",
    hint="give the same `repotrial run start` again: it repeats what is excused",
)


def keep_request(request: TrialRequest) -> None:
    """Remember a request; one that is known already is kept once."""
    path = request.conditions.runs / _NAME
    absolute = msgspec.structs.replace(
        request, contracts=tuple(contract.resolve() for contract in request.contracts)
    )
    conditions = msgspec.structs.replace(absolute.conditions, is_fresh=False, cause=None)
    line = msgspec.json.encode(
        msgspec.structs.replace(absolute, conditions=conditions), enc_hook=_encode, order="deterministic"
    )
    known = path.read_bytes().splitlines() if path.is_file() else []
    if line not in known:
        write_atomic(path, b"\n".join([*known, line]) + b"\n", is_durable=False)


def load_requests(runs: Path, cause: Cause) -> list[TrialRequest]:
    """Each request that was made here, restricted to runs that are excused for this cause.

    Raises:
        NO_REQUEST: none was kept, or it cannot be read.
    """
    try:
        lines = (runs / _NAME).read_bytes().splitlines()
        found = [msgspec.json.decode(line, type=TrialRequest, dec_hook=_decode) for line in lines]
    except (OSError, msgspec.DecodeError) as error:
        raise NO_REQUEST.error(f"{runs / _NAME}: expected requests, found: {error}") from error
    return [
        msgspec.structs.replace(
            request, conditions=msgspec.structs.replace(request.conditions, runs=runs, cause=cause)
        )
        for request in found
    ]


def _encode(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decode(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
