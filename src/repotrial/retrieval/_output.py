"""Result files that may be written again, and those of others that may not (R14)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import write_atomic

_RECORD: Final = ".repotrial-written.jsonl"
"""Beside results: the digest of each file that this command wrote there."""

RETRIEVAL_OUTPUT_EXISTS = ErrorCode(
    "retrieval-output-exists",
    UsageError,
    "A result would replace a file that was not written by this command, or was edited since.",
    hint="name another directory with --out; only results of this command are replaced",
)


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    sha256: str


def write_own(path: Path, document: msgspec.Struct) -> None:
    """Write a result; an earlier one of this command is replaced, the same one but for its time stays.

    Raises:
        RETRIEVAL_OUTPUT_EXISTS: another file is there.
    """
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    record = path.parent / _RECORD
    if path.exists():
        before = path.read_bytes()
        if _without_time(before) == _without_time(data):
            return
        if _Written(name=path.name, sha256=sha256(before).hexdigest()) not in _load(record):
            raise RETRIEVAL_OUTPUT_EXISTS.error(
                f"{path}: expected no file, or one that `repotrial retrieval` wrote, found another one; "
                "remove it, or name another place with --out"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    line = msgspec.json.encode(_Written(name=path.name, sha256=sha256(data).hexdigest())) + b"\n"
    with record.open("ab") as stream:  # first: a file without its line could never be replaced
        stream.write(line)
    write_atomic(path, data, is_durable=False)  # whatever is lost can be computed again


def _load(record: Path) -> set[_Written]:
    found = set()
    for line in record.read_bytes().splitlines() if record.is_file() else ():
        try:
            found.add(msgspec.json.decode(line, type=_Written))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # cut off when the machine stopped
    return found


def _without_time(data: bytes) -> object:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    if isinstance(value, dict):
        value.pop("generated_at", None)
    return value
