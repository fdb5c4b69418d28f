"""Verbs on results: from trials to figures, to files that people and tools read, and the same again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError
from repotrial._core.files import write_atomic
from repotrial.report import render_analysis

if TYPE_CHECKING:
    from repotrial.analysis import Analysis
    from repotrial.conduct import Bundle

_MOST_BYTES: Final = 256 * 1024**2
_MOST_LISTED: Final = 50

ANALYSIS_WRITE = ErrorCode(
    "analysis-write",
    MachineError,
    "An analysis cannot be written.",
    hint="name another place with --out, make room or fix the permissions",
)
ANALYSIS_UNREADABLE = ErrorCode(
    "analysis-unreadable",
    UsageError,
    "A document to check against is no analysis.",
    hint="name the analysis.json that `repotrial pilot analyze --out` wrote",
)
ANALYSIS_DIFFERS = ErrorCode(
    "analysis-differs",
    EvidenceError,
    "An analysis computed anew is not the one that was published. Every figure that differs is listed.",
    hint="compare the artefacts that it names: other runs, another plan or another release differ",
)


def analyze_table(path: Path) -> Analysis:
    """Analyze a table of trials, or results of another harness as it wrote them.

    Raises:
        TABLE_UNREADABLE: a table is no file, too large or not UTF-8.
        TABLE_INVALID: lines of a table are no trials.
        FOREIGN_RESULTS: files are of no form that is known.
    """
    from repotrial.analysis import analyze_trials
    from repotrial.interop import read_results

    return analyze_trials(read_results(path))


def analyze_conducted(directory: Path, look_key: Path | None = None) -> Analysis:
    """Analyze a conducted pilot from its documents and run directories; nothing is executed.

    Args:
        directory: The pilot's.
        look_key: The private key that signs a look at a pilot in stage 3; None: none is asked for.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
    """
    from repotrial.analysis import analyze_pilot
    from repotrial.conduct import load_conducted
    from repotrial.cost import load_price_book

    pilot = load_conducted(directory, look_key)
    prices = None if pilot.prices is None else directory / pilot.prices
    return analyze_pilot(pilot, load_price_book(prices))


def bundle_pilot(directory: Path, out: Path) -> Bundle:
    """Pack a conducted pilot with its analysis into one archive that an outsider can check.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        PILOT_UNFINISHED: planned runs are still to be conducted.
        BUNDLE_SOURCE: something in the directory is not a plain file.
        BUNDLE_WRITE: the machine does not let us write.
    """
    from repotrial.conduct import load_conducted, write_bundle

    results = render_analysis(analyze_conducted(directory))
    return write_bundle(load_conducted(directory), results, out)


def report_analysis(analysis: Analysis, out: Path | None = None) -> dict[str, str]:
    """An analysis as JSON, Markdown and CSV tables, by file name; with `out`, also written into a directory.

    Older files of these names there are replaced.

    Raises:
        ANALYSIS_WRITE: the machine does not let us write.
    """
    texts = render_analysis(analysis)
    if out is None:
        return texts
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(out / name, text.encode())
    except OSError as error:
        raise ANALYSIS_WRITE.error(f"{out}: expected to write the analysis, found: {error}") from error
    return texts


def check_analysis(analysis: Analysis, published: Path) -> None:
    """Hold an analysis against a published one, figure by figure.

    Raises:
        ANALYSIS_UNREADABLE: the published one cannot be read.
        ANALYSIS_DIFFERS: something differs; all of it is listed.
    """
    from repotrial.analysis import Analysis

    try:
        with published.open("rb") as stream:
            expected = msgspec.json.decode(stream.read(_MOST_BYTES), type=Analysis)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ANALYSIS_UNREADABLE.error(f"{published}: expected an analysis, found: {error}") from error
    found = list(_iter_differences("", msgspec.to_builtins(expected), msgspec.to_builtins(analysis)))
    if found:
        lines = [f"  {line}" for line in found[:_MOST_LISTED]]
        if len(found) > len(lines):
            lines.append(f"  … and {len(found) - len(lines)} more")
        message = f"{published}: expected the same figures again, found {len(found)} that differ:"
        raise ANALYSIS_DIFFERS.error("\n".join([message, *lines]), details=found)


def _iter_differences(place: str, expected: object, found: object) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            inner = f"{place}.{key}" if place else str(key)
            yield from _iter_differences(inner, expected.get(key), found.get(key))
    elif isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            yield f"{place}: expected {len(expected)} entries, found {len(found)}"
        for index, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from _iter_differences(f"{place}[{index}]", one, other)
    elif expected != found:
        yield f"{place}: expected {expected!r}, found {found!r}"
