"""The chain of sources (R5): the first one that names a file wins; every level has its own winner (R6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from repotrial.retrieval._contract_truth import (
    Claim,
    Truth,
    TruthAttempt,
    find_embedded_patches,
    read_patch,
)
from repotrial.retrieval._documents import Chunk, Symbol, TruthConfidence

_UNESCAPED: Final = (("\\.", "."), ("\\-", "-"), ("\\(", "("), ("\\)", ")"))


def read_ground_truth(value: Any) -> Claim | None:
    """`tests/ground_truth.json`, in any of its forms."""
    if isinstance(value, list):
        return _claim(_strings(value), "ground_truth_json_list")
    if not isinstance(value, dict):
        return None
    confidence = _confidence(value.get("confidence"))
    for source, find in _FORMS:
        files = find(value)
        if files:
            return Claim(files=files, source=source, confidence=confidence)
    return None


def read_oracle_answer(value: Any) -> Claim | None:
    """`tests/oracle_answer.json`: what a search over several repositories should bring up."""
    if not isinstance(value, dict):
        return None
    items = [item for key in ("files", "chain", "symbols") for item in _dicts(value.get(key))]
    return _claim(_name_with_repositories(items), "oracle_answer_json")


def read_instance(value: Any) -> Claim | None:
    """`tests/instance.json`."""
    return _claim(_strings(_get(value, "build_files")), "instance_json")


def read_expected_changes(value: Any) -> Claim | None:
    """`tests/expected_changes.json`."""
    claim = _claim(_strings(_get(value, "expected_files")), "expected_changes_json")
    return None if claim is None else msgspec.structs.replace(claim, edits=claim.files)


def read_defects(value: Any) -> Claim | None:
    """`tests/expected_defects.json`: a list, alone or under `defects`."""
    items = _dicts(value if isinstance(value, list) else _get(value, "defects"))
    files = tuple(dict.fromkeys(_text(item, "file") for item in items if _text(item, "file")))
    claim = _claim(files, "expected_defects_json")
    if claim is None:
        return None
    return msgspec.structs.replace(claim, chunks=tuple(_iter_chunks(items)))


def read_symbols(value: Any) -> tuple[Symbol, ...]:
    """Oracle items of `task_spec.json` that name a symbol (R6)."""
    oracle = _get(_get(value, "artifacts"), "oracle")
    items = _dicts(oracle) or [i for v in (oracle or {}).values() for i in _dicts(v)] if oracle else []
    found = []
    for item in items:
        file = _text(item, "path") or _text(item, "file")
        symbol = _text(item, "symbol")
        if file and symbol:
            found.append(Symbol(file=file, symbol=symbol, repo=_text(item, "repo") or msgspec.UNSET))
    return tuple(found)


def _find_references(value: dict[str, Any]) -> tuple[str, ...]:
    patterns = [p for item in _dicts(value.get("file_references")) for p in _strings(item.get("patterns"))]
    found = []
    for pattern in patterns:
        for escaped, plain in _UNESCAPED:
            pattern = pattern.replace(escaped, plain)  # noqa: PLW2901 - the same pattern, step by step
        if "/" in pattern:
            found.append(pattern)
    return tuple(dict.fromkeys(found))


def _find_entries(value: dict[str, Any]) -> tuple[str, ...]:
    files = (_text(item, "file") for item in _dicts(value.get("entries")))
    return tuple(dict.fromkeys(file for file in files if file))


def _find_steps(value: dict[str, Any]) -> tuple[str, ...]:
    """Tasks that lead through several repositories state files, steps and patterns beside each other."""
    steps = _name_with_repositories(_dicts(value.get("steps")))
    if not steps:
        return ()
    return tuple(dict.fromkeys((*_strings(value.get("files")), *steps, *_find_references(value))))


def _find_path(value: dict[str, Any]) -> tuple[str, ...]:
    path = _text(value, "file_path") or _text(value, "canonical_path")
    return (path,) if path else ()


_FORMS: Final[tuple[tuple[str, Callable[[dict[str, Any]], tuple[str, ...]]], ...]] = (
    ("ground_truth_json", _find_steps),
    ("ground_truth_json_files", lambda value: _strings(value.get("files"))),
    ("ground_truth_json_refs", _find_references),
    ("ground_truth_json_buggy", lambda value: _strings(value.get("buggy_files"))),
    ("ground_truth_json_entries", _find_entries),
    ("ground_truth_json_perf", _find_path),
)


def _name_with_repositories(items: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """Paths; with their repository in front where there are several."""
    pairs = [(_text(item, "repo"), _text(item, "path") or _text(item, "file")) for item in items]
    known = {repo for repo, path in pairs if repo and path}
    several = len(known) > 1
    names = (f"{repo}::{path}" if repo and several else path for repo, path in pairs if path)
    return tuple(dict.fromkeys(names))


def _iter_chunks(items: Iterable[dict[str, Any]]) -> Iterable[Chunk]:
    for item in items:
        file, first = _text(item, "file"), item.get("line_start")
        if not file or not isinstance(first, int) or first < 1:
            continue  # a chunk without its place can be neither met nor missed
        last = item.get("line_end")
        yield Chunk(
            file=file,
            line_start=first,
            line_end=last if isinstance(last, int) and last >= first else first,
            annotation=_text(item, "defect_type") or msgspec.UNSET,
        )


def _claim(files: tuple[str, ...], source: str) -> Claim | None:
    return Claim(files=files, source=source, confidence="high") if files else None


def _confidence(value: Any) -> TruthConfidence:
    match value:
        case "high" | "medium" | "low":
            found: TruthConfidence = value
            return found
        case _:
            return "high"


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _strings(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(item for item in items if isinstance(item, str) and item))


_PATH: Final = re.compile(
    r"(?<![\w./-])(?P<path>(?:[\w.-]+/)+[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{0,9})(?=$|[\s`'\":,#;)\]>]|\.(?:\s|$))",
    re.MULTILINE,
)
_NOT_OURS: Final = re.compile(r"^(https?|ftp|usr|bin|tmp|etc|opt|var)\b|node_modules|\.lock$")
_WORKSPACE: Final = re.compile(r"/(?:workspace|testbed|repo_full|app)/")


def list_mentioned_files(text: str) -> tuple[str, ...]:
    """Relative paths with an extension, in order, without repeats; addresses and system files are none."""
    plain = re.sub(r"\b(?:https?|ftp)://\S+", " ", _WORKSPACE.sub(" ", text))
    found = (match["path"].removeprefix("./") for match in _PATH.finditer(plain))
    return tuple(dict.fromkeys(path for path in found if not _NOT_OURS.search(path)))


_MOST_BYTES: Final = 64 * 1024**2

Reader: TypeAlias = Callable[[bytes], Claim | None]


def _json(read: Callable[[Any], Claim | None]) -> Reader:
    return lambda data: read(msgspec.json.decode(data))


def _patch(data: bytes) -> Claim | None:
    return read_patch(_decode(data), "high")


def _gold_patch(data: bytes) -> Claim | None:
    return read_patch(find_embedded_patches(_decode(data)), "medium")


def _instruction(data: bytes) -> Claim | None:
    return _of(list_mentioned_files(_decode(data)), "instruction", "medium")


def _test_script(data: bytes) -> Claim | None:
    return _of(list_mentioned_files(_decode(data)), "test_script", "low")


CHAIN: Final[tuple[tuple[str, Reader], ...]] = (
    ("tests/ground_truth.json", _json(read_ground_truth)),
    ("tests/expected_defects.json", _json(read_defects)),
    ("tests/expected_changes.json", _json(read_expected_changes)),
    ("tests/reference_fix.patch", _patch),
    ("tests/expected.diff", _patch),
    ("tests/expected.patch", _patch),
    ("solution/solve.sh", _gold_patch),
    ("instruction.md", _instruction),
    ("tests/test.sh", _test_script),
)
"""Files of a task's directory, strongest first, as R5 lists them."""

_FURTHER: Final[tuple[tuple[str, str, Reader], ...]] = (
    ("tests/ground_truth.json", "tests/oracle_answer.json", _json(read_oracle_answer)),
    ("tests/expected_defects.json", "tests/instance.json", _json(read_instance)),
    ("instruction.md", "environment/solve.sh", _gold_patch),
)
"""Sources that the specification does not have (ADR 0041): before which step, the file, its reader."""


def list_sources(*, has_further: bool) -> tuple[tuple[str, Reader], ...]:
    """The steps of the chain; `has_further` adds those that only the reference implementation has."""
    if not has_further:
        return CHAIN
    before = {step: (name, read) for step, name, read in _FURTHER}
    return tuple(
        step for name, read in CHAIN for step in ((before[name],) if name in before else ()) + ((name, read),)
    )


def find_truth(task: Path, *, has_further: bool = False) -> Truth:
    """What matters for a task, from its directory."""
    claim: Claim | None = None
    editing: Claim | None = None
    chunks: tuple[Chunk, ...] = ()
    attempts: list[TruthAttempt] = []
    for name, read in list_sources(has_further=has_further):
        found, attempt = _try(task / name, name, read)
        levels = []
        if found is not None and found.files and claim is None:
            claim = found
            levels.append(f"{len(found.files)} files")
        if found is not None and found.edits and editing is None:
            editing = found
            levels.append(f"{len(found.edits)} expected edits")
        if found is not None and found.chunks and not chunks:
            chunks = found.chunks
            levels.append(f"{len(found.chunks)} chunks")
        attempts.append(_describe(attempt, found, levels))
    return Truth(
        claim=claim, editing=editing, chunks=chunks, symbols=_load_symbols(task), attempts=tuple(attempts)
    )


def _describe(attempt: TruthAttempt, found: Claim | None, levels: list[str]) -> TruthAttempt:
    if found is None:
        return attempt
    if not levels:
        return TruthAttempt(path=attempt.path, outcome="not-reached", detail="a stronger source says it")
    detail = f"{found.source}, {found.confidence} confidence: {', '.join(levels)}"
    return TruthAttempt(path=attempt.path, outcome="taken", detail=detail)


def _try(path: Path, name: str, read: Reader) -> tuple[Claim | None, TruthAttempt]:
    if not path.is_file():
        return None, TruthAttempt(path=name, outcome="absent")
    try:
        claim = read(_load(path))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return None, TruthAttempt(path=name, outcome="unreadable", detail=str(error)[:200])
    if claim is None:
        return None, TruthAttempt(
            path=name, outcome="nothing", detail="it names no file in a form that is known"
        )
    return claim, TruthAttempt(path=name, outcome="taken")


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


def _of(files: tuple[str, ...], source: str, confidence: TruthConfidence) -> Claim | None:
    return Claim(files=files, source=source, confidence=confidence) if files else None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
