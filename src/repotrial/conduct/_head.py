"""The end of the journal, signed in a second place: an end that is cut off with its runs is seen (B5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, RepoTrialError
from repotrial._core.files import write_atomic
from repotrial.contract import StrictDocument
from repotrial.signing import NoSigner, SigningKey, StatementKind

HEAD_FILE: Final = "journal.head.json"
_SUBJECT: Final = "journal"

HEAD_INVALID = ErrorCode(
    "journal-head-invalid",
    EvidenceError,
    "The signed end of a pilot's journal does not have the form of one.",
    hint="take journal.jsonl and journal.head.json from the same backup",
)


class JournalHead(StrictDocument, frozen=True, kw_only=True):
    """How long the journal was, and how it ended, when the last line was written."""

    schema: Literal["repotrial/journal-head@1"] = "repotrial/journal-head@1"
    """Which version of this format."""
    entries: Count
    """Lines."""
    public_key: str
    """Of the machine that conducted, in PEM: one of those that the registration names."""


_KIND: Final = StatementKind(
    predicate=JournalHead,
    predicate_type="urn:repotrial:journal-head:1",
    invalid=HEAD_INVALID,
    unknown=HEAD_INVALID,
)


def write_head(directory: Path, entries: int, head: Digest, key: SigningKey) -> None:
    """Sign how the journal ends at this moment."""
    predicate = JournalHead(entries=entries, public_key=key.public_key.pem)
    write_atomic(directory / HEAD_FILE, _KIND.sign(predicate, subjects={_SUBJECT: head}, key=key))


def check_head(directory: Path, digests: Sequence[Digest], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What does not fit between the journal and its signed end, as code and sentence.

    A killed process may leave one line more than was signed, never one less.

    Args:
        directory: The pilot's.
        digests: Of the journal's lines.
        keys: Of machines that may conduct, in PEM.
    """
    path = directory / HEAD_FILE
    if not path.is_file():
        if digests:
            yield "journal-unsigned", f"{HEAD_FILE}: expected the signed end of the journal, found none"
        return
    try:
        signed = _KIND.parse(path.read_bytes(), name=HEAD_FILE)
    except RepoTrialError as error:
        yield "journal-head-forged", error.message
        return
    head = signed.predicate
    if head.public_key not in keys or isinstance(signed.find_signer(head.public_key, None), NoSigner):
        yield "journal-head-forged", f"{HEAD_FILE}: expected a signature of a registered key, found none"
    elif len(digests) < head.entries:
        message = (
            f"journal.jsonl: expected at least {head.entries} lines, found {len(digests)}: its end is cut off"
        )
        yield "journal-cut", message
    elif head.entries and digests[head.entries - 1] != signed.subjects.get(_SUBJECT):
        yield "journal-cut", f"journal.jsonl: expected line {head.entries} as it was signed, found another"
