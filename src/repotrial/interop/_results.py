"""Results of other harnesses as trials: Harbor's jobs, Inspect's logs, SWE-bench's report files.

What a file does not say is not made up: a trial without a verdict is `invalid` (nothing can be said) or
`error` (its checks did not complete), a cost that is not there stays unknown. Nothing of it was witnessed.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import describe_refusal
from repotrial.analysis import Trial, TrialTable, read_trials
from repotrial.interop._foreign import ForeignTrial, read_harbor, read_inspect, read_swebench

_MOST_BYTES: Final = 256 * 1024**2
_MOST_FILES: Final = 20_000
_LOG_SUFFIX: Final = ".eval"

FOREIGN_RESULTS = ErrorCode(
    "foreign-results",
    UsageError,
    "Results of another harness are not of a form that is known here, or are damaged.",
    hint="known are jobs of Harbor, .eval or .json logs of Inspect, and report files of SWE-bench; "
    "any others as a table: docs/how-to/analyze-a-table.md",
)


class _Found(NamedTuple):
    name: str
    digest: Digest
    harness: str
    trials: list[ForeignTrial]


def is_foreign(path: Path) -> bool:
    """Whether a path holds results of another harness; only looks, and raises nothing."""
    if path.is_dir():
        return any(True for _ in _iter_files(path))
    return path.suffix == _LOG_SUFFIX or (path.suffix == ".json" and _recognize(_try_read(path)) is not None)


def read_results(path: Path) -> TrialTable:
    """Read trials: of a table, or of another harness's files, as it wrote them.

    Args:
        path: A table (`.csv`), a file of another harness, or a directory of such files.

    Raises:
        TABLE_UNREADABLE: a table is none.
        TABLE_INVALID: lines of a table are no trials.
        FOREIGN_RESULTS: the files are of no known form.
    """
    if path.suffix == ".csv" or not path.exists():
        return read_trials(path)
    files = [*_iter_files(path)] if path.is_dir() else [path]
    found = [_read_file(file, path) for file in files[:_MOST_FILES]]
    if not any(one.trials for one in found):
        raise FOREIGN_RESULTS.error(f"{path}: expected results of another harness, found none")
    digest = found[0].digest if path.is_file() else canonical_digest({one.name: one.digest for one in found})
    harnesses = ", ".join(dict.fromkeys(one.harness for one in found))
    trials = tuple(_number([trial for one in found for trial in one.trials]))
    return TrialTable(file=path.name, digest=digest, trials=trials, origin=f"a file of {harnesses}")


def _number(found: list[ForeignTrial]) -> Iterator[Trial]:
    """Repeats in the order of the files: numbers of several files could be the same."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in found:
        repeat = counts[one.task, one.arm]
        counts[one.task, one.arm] += 1
        yield Trial(
            task=one.task,
            arm=one.arm,
            repeat=repeat,
            outcome=one.outcome,
            cost_usd=one.cost_usd,
            wall_seconds=one.wall_seconds,
        )


def _iter_files(directory: Path) -> Iterator[Path]:
    """Files of a known form below a directory, in order."""
    for path in sorted(directory.rglob("*")):
        is_log = path.suffix == _LOG_SUFFIX
        if path.is_file() and (is_log or (path.suffix == ".json" and _recognize(_try_read(path)))):
            yield path


def _read_file(path: Path, top: Path) -> _Found:
    try:
        data = _read(path)
        document = _read_log(data, path) if path.suffix == _LOG_SUFFIX else msgspec.json.decode(data)
        harness = _recognize(document)
        match harness:
            case "Harbor":
                trials = [read_harbor(document)]
            case "Inspect":
                trials = read_inspect(document)
            case "SWE-bench":
                trials = read_swebench(document, path.stem)
            case _:
                raise FOREIGN_RESULTS.error(f"{path}: expected a known form, found another")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        words = describe_refusal(error)
        raise FOREIGN_RESULTS.error(f"{path}: expected results, found: {words}") from error
    name = path.name if path == top else path.relative_to(top).as_posix()
    return _Found(name=name, digest=digest_bytes(data), harness=harness, trials=trials)


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise FOREIGN_RESULTS.error(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
    return data


def _try_read(path: Path) -> object:
    try:
        return msgspec.json.decode(_read(path))
    except (OSError, UsageError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _recognize(document: object) -> str | None:
    match document:
        case {"trial_name": str(), "task_name": str(), "agent_info": dict()}:
            return "Harbor"
        case {"eval": {"model": str()}, "samples": list()}:
            return "Inspect"
        case {"resolved_ids": list(), "submitted_ids": list()}:
            return "SWE-bench"
        case _:
            return None


def _read_log(data: bytes, path: Path) -> dict[str, Any]:
    """An archive as the one document that Inspect's JSON form is."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
            sizes = sum(archive.getinfo(name).file_size for name in names)
            if sizes > _MOST_BYTES:
                raise FOREIGN_RESULTS.error(f"{path}: expected at most {_MOST_BYTES} bytes, found {sizes}")
            header = msgspec.json.decode(archive.read("header.json"))
            return {**header, "samples": [msgspec.json.decode(archive.read(name)) for name in names]}
    except NotImplementedError as error:
        raise FOREIGN_RESULTS.error(
            f"{path}: expected members that this Python can unpack, found zstd",
            hint=f"inspect log convert {path} --to json --output-dir logs, and name logs",
        ) from error
    except (zipfile.BadZipFile, KeyError, TypeError, EOFError) as error:
        raise FOREIGN_RESULTS.error(f"{path}: expected a log of Inspect, found: {error}") from error
