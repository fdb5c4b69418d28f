"""The chain of sources (R5): the first one that names a file wins, and every step says what it found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from repotrial.retrieval._documents import Confidence, Symbol
from repotrial.retrieval._truth._forms import (
    read_defects,
    read_expected_changes,
    read_ground_truth,
    read_instance,
    read_oracle_answer,
    read_symbols,
)
from repotrial.retrieval._truth._mentions import list_mentioned_files
from repotrial.retrieval._truth._model import Attempt, Claim, Truth
from repotrial.retrieval._truth._patches import find_embedded_patches, list_patched_files

_MOST_BYTES: Final = 64 * 1024**2

Reader: TypeAlias = Callable[[bytes], Claim | None]


def _json(read: Callable[[Any], Claim | None]) -> Reader:
    return lambda data: read(msgspec.json.decode(data))


def _patch(data: bytes) -> Claim | None:
    return _of(list_patched_files(_decode(data)), "patch", "high", names_edits=True)


def _gold_patch(data: bytes) -> Claim | None:
    return _of(list_patched_files(find_embedded_patches(_decode(data))), "patch", "medium", names_edits=True)


def _instruction(data: bytes) -> Claim | None:
    return _of(list_mentioned_files(_decode(data)), "instruction", "medium")


def _test_script(data: bytes) -> Claim | None:
    return _of(list_mentioned_files(_decode(data)), "test_script", "low")


CHAIN: Final[tuple[tuple[str, Reader], ...]] = (
    ("tests/oracle_answer.json", _json(read_oracle_answer)),
    ("tests/ground_truth.json", _json(read_ground_truth)),
    ("tests/instance.json", _json(read_instance)),
    ("tests/expected_defects.json", _json(read_defects)),
    ("tests/expected_changes.json", _json(read_expected_changes)),
    ("tests/reference_fix.patch", _patch),
    ("tests/expected.diff", _patch),
    ("tests/expected.patch", _patch),
    ("solution/solve.sh", _gold_patch),
    ("environment/solve.sh", _gold_patch),
    ("instruction.md", _instruction),
    ("tests/test.sh", _test_script),
)
"""Files of a task's directory, strongest first."""


def find_truth(task: Path) -> Truth:
    """What matters for a task, from its directory."""
    claim: Claim | None = None
    attempts: list[Attempt] = []
    for name, read in CHAIN:
        if claim is not None:
            is_there = (task / name).is_file()
            attempts.append(Attempt(path=name, outcome="not-reached" if is_there else "absent"))
            continue
        claim, attempt = _try(task / name, name, read)
        attempts.append(attempt)
    return Truth(claim=claim, symbols=_load_symbols(task), attempts=tuple(attempts))


def _try(path: Path, name: str, read: Reader) -> tuple[Claim | None, Attempt]:
    if not path.is_file():
        return None, Attempt(path=name, outcome="absent")
    try:
        claim = read(_load(path))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return None, Attempt(path=name, outcome="unreadable", detail=str(error)[:200])
    if claim is None:
        return None, Attempt(path=name, outcome="nothing", detail="it names no file in a form that is known")
    detail = f"{claim.source}, {claim.confidence} confidence, {len(claim.files)} files"
    return claim, Attempt(path=name, outcome="taken", detail=detail)


def _load_symbols(task: Path) -> tuple[Symbol, ...]:
    for name in ("tests/task_spec.json", "task_spec.json"):
        path = task / name
        if path.is_file():
            try:
                return read_symbols(msgspec.json.decode(_load(path)))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
                continue
    return ()


def _load(path: Path) -> bytes:
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"expected at most {_MOST_BYTES} bytes, found more")
    return data


def _of(
    files: tuple[str, ...], source: str, confidence: Confidence, *, names_edits: bool = False
) -> Claim | None:
    if not files:
        return None
    return Claim(files=files, source=source, confidence=confidence, names_edits=names_edits)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
