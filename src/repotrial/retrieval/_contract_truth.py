"""What matters for a contract of our own: `retrieval.toml` beside it, and its reference patch (R5, R6)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from repotrial._core.errors import AgentError
from repotrial.change import PATCH_UNREADABLE, scan_headers, scan_patch
from repotrial.retrieval._documents import Chunk, Symbol, TruthConfidence


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one file says about what matters; it may say nothing of use."""

    files: tuple[str, ...]
    """Without repeats, as spelled; `repo::path` where several repositories are meant."""
    source: str
    """Which form of which file."""
    confidence: TruthConfidence
    chunks: tuple[Chunk, ...] = ()
    edits: tuple[str, ...] = ()
    """Files that a right change edits or creates (R6); empty if the source does not say."""


class TruthAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the chain, for `--explain`."""

    path: str
    """Relative to the task's directory."""
    outcome: Literal["absent", "unreadable", "nothing", "taken", "not-reached"]
    detail: str = ""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What won, and why."""

    claim: Claim | None
    """The source of the files; None if no source names one that could have been read."""
    symbols: tuple[Symbol, ...]
    attempts: tuple[TruthAttempt, ...]
    """All steps, in order."""
    editing: Claim | None = None
    """The source of the expected edits, which may be another one (R6); None if no source says."""
    chunks: tuple[Chunk, ...] = ()
    """Lines that matter, from the first source that states them."""


_PREFIX: Final = re.compile(r"^[ab]/")
_START: Final = re.compile(r"^(diff --git |--- (a/|/dev/null))", re.MULTILINE)
_HERE_DOC: Final = re.compile(r"<<-?\s*(['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)\1")


def read_patch(text: str, confidence: TruthConfidence) -> Claim | None:
    """What a reference patch says: the files that were there matter, all that it names are edits.

    A file that the patch creates cannot have been read, so it is an expected edit and no evidence.
    """
    found = _scan_patched_files(text)
    names = tuple(dict.fromkeys(name for pair in found for name in (pair[1], pair[0]) if name))
    before = tuple(dict.fromkeys(old for old, _ in found if old))
    if not names:
        return None
    return Claim(files=before, source="patch", confidence=confidence, edits=names)


def _scan_patched_files(text: str) -> list[tuple[str | None, str | None]]:
    """The name before and the name after of each file; a side is None if nothing is there."""
    patch = text.encode("utf-8", "surrogatepass")
    try:
        files = scan_patch(patch)
    except AgentError as error:
        if error.code != PATCH_UNREADABLE:
            raise
        files = scan_headers(patch)  # all that can be read
    return [(_strip_side(file.old_name), _strip_side(file.new_name)) for file in files]


def _strip_side(name: str | None) -> str | None:
    return _PREFIX.sub("", name.strip(), count=1) if name else None


def find_embedded_patches(script: str) -> str:
    """The patches that a script carries in here-documents, or plainly; empty where it has none."""
    parts: list[str] = []
    lines = script.splitlines(keepends=True)
    place = 0
    while place < len(lines):
        opened = _HERE_DOC.search(lines[place])
        place += 1
        if opened is None:
            continue
        end = next((n for n in range(place, len(lines)) if lines[n].strip() == opened["word"]), len(lines))
        body = "".join(lines[place:end])
        if _START.search(body):
            parts.append(body)
        place = end + 1
    if parts:
        return "".join(parts)
    start = _START.search(script)
    return script[start.start() :] if start else ""


_STATED: Final = "retrieval.toml"
_LARGEST: Final = 64 * 1024**2


class RetrievalTruth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document `retrieval.toml`."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/retrieval@1$")]
    """Which version of this format."""
    files: tuple[str, ...] = ()
    """Files that matter for the task, relative to the repository."""
    expected_edit_files: tuple[str, ...] = ()
    """Files that a right change edits; those of the reference patch where none are named."""
    symbols: tuple[Symbol, ...] = ()
    """Symbols that matter."""
    chunks: tuple[Chunk, ...] = ()
    """Lines that matter."""


def find_contract_truth(directory: Path) -> Truth:
    """What matters for a contract; what its author states comes before what its patch touches."""
    stated, first = _try_stated(directory / _STATED)
    reference = _find_reference(directory)
    patched, second = _try_patch(directory / reference, reference)
    claim, editing = patched, patched
    if stated is not None and stated.files:
        claim = Claim(files=stated.files, source="retrieval_toml", confidence="high")
    if stated is not None and stated.expected_edit_files:
        editing = Claim(
            files=(), source="retrieval_toml", confidence="high", edits=stated.expected_edit_files
        )
    if second.outcome == "taken" and claim is not patched:
        used = "it names the expected edits" if editing is patched else "the author states everything"
        second = TruthAttempt(path=second.path, outcome="not-reached", detail=used)
    return Truth(
        claim=claim if claim is not None and claim.files else None,
        editing=editing,
        symbols=() if stated is None else stated.symbols,
        chunks=() if stated is None else stated.chunks,
        attempts=(first, second),
    )


def _try_stated(path: Path) -> tuple[RetrievalTruth | None, TruthAttempt]:
    if not path.is_file():
        return None, TruthAttempt(path=_STATED, outcome="absent")
    try:
        with path.open("rb") as stream:
            value = tomllib.loads(stream.read(_LARGEST).decode())
        stated = msgspec.convert(value, RetrievalTruth)
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        return None, TruthAttempt(path=_STATED, outcome="unreadable", detail=str(error)[:200])
    if not stated.files:
        return stated, TruthAttempt(path=_STATED, outcome="nothing", detail="it names no files")
    return stated, TruthAttempt(
        path=_STATED, outcome="taken", detail=f"retrieval_toml, high confidence, {len(stated.files)} files"
    )


def _find_reference(directory: Path) -> str:
    try:
        with (directory / "contract.toml").open("rb") as stream:
            name = tomllib.loads(stream.read(_LARGEST).decode()).get("reference")
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, RecursionError):
        name = None
    is_inside = isinstance(name, str) and not name.startswith("/") and ".." not in name.split("/")
    return name if isinstance(name, str) and is_inside else "reference.patch"


def _try_patch(path: Path, name: str) -> tuple[Claim | None, TruthAttempt]:
    if not path.is_file():
        return None, TruthAttempt(path=name, outcome="absent")
    try:
        with path.open("rb") as stream:
            claim = read_patch(stream.read(_LARGEST).decode("utf-8", "replace"), "high")
    except OSError as error:
        return None, TruthAttempt(path=name, outcome="unreadable", detail=str(error)[:200])
    if claim is None:
        return None, TruthAttempt(
            path=name, outcome="nothing", detail="it names no file in a form that is known"
        )
    return claim, TruthAttempt(
        path=name, outcome="taken", detail=f"patch, high confidence, {len(claim.files)} files"
    )
