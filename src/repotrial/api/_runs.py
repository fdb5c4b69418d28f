"""Verbs on runs and on the key that seals them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from repotrial.cost import PriceBook, load_price_book
from repotrial.score import (
    RUN_DIRECTORY_MISSING,
    RunEntry,
    RunFilter,
    ScoreCard,
    build_run_paths,
    find_stop,
    iter_judged_runs,
    judge_run,
    load_evidence,
    write_verdict,
)
from repotrial.trace import (
    AspectVerdict,
    Holds,
    PublicKey,
    SigningKey,
    TimelineRow,
    check_run,
    iter_payload_types,
    iter_timeline,
)


class RunCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What `run verify` found in one directory."""

    directory: str
    run_id: str | None
    """As the trace says; None if it does not begin as a trace does."""
    holds: bool
    """Whether all that was asked was checked and holds."""
    is_unchanged: bool
    """Whether a seal covers exactly these files; not whose it is."""
    key_id: str | None
    """The key that signed; None if there is no valid signature."""
    is_stopped: bool
    """Whether the operator stopped the run, and nothing but what that left undone is missing."""
    event_count: int
    """So many events are shown to be as they were written."""
    chain: AspectVerdict
    seal: AspectVerdict
    completeness: AspectVerdict
    identity: AspectVerdict

    @property
    def lacks_only_trust(self) -> bool:
        """Whether the files are good and only the signer is in question."""
        others = (self.chain, self.completeness, self.identity)
        return self.is_unchanged and all(isinstance(verdict, Holds) for verdict in others)


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What `run score` computed of one directory."""

    directory: str
    """Where it is, with `score.json` and `report.json` in it."""
    entry: RunEntry
    """In short."""
    card: ScoreCard
    """All of it."""


class KeyDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The public half of this machine's key."""

    key_id: str
    public_key: str
    path: str


def load_trusted_keys(files: Sequence[Path], own: Path | None) -> list[PublicKey]:
    """The public keys in `files`; if none is named, the machine's `own`, which is not made here."""
    if files:
        return [PublicKey.load(path) for path in files]
    return [SigningKey.load(own).public_key] if own is not None and os.path.lexists(own) else []


def verify_run(directory: Path, *, trusted_keys: Sequence[PublicKey] | None) -> RunCheck:
    """Check chain, seal, completeness and identity of a run directory.

    Args:
        directory: The run directory; a copy on another machine is as good.
        trusted_keys: Whose seal is believed. None asks only whether anything changed since it was sealed.
    """
    paths = build_run_paths(directory)
    found = check_run(paths, trusted_keys=trusted_keys or None)
    others_hold = all(
        isinstance(verdict, Holds) for verdict in (found.chain, found.completeness, found.identity)
    )
    return RunCheck(
        directory=str(directory),
        run_id=found.chain_report.run_id,
        holds=others_hold and found.seal_report.is_intact if trusted_keys is None else found.holds,
        is_unchanged=found.seal_report.is_intact,
        key_id=getattr(found.seal_report.signer, "key_id", None),
        is_stopped=found.seal_report.is_intact
        and isinstance(found.chain, Holds)
        and isinstance(found.identity, Holds)
        and not isinstance(found.completeness, Holds)
        and find_stop(load_evidence(paths.root)) is not None,
        event_count=found.chain_report.count,
        chain=found.chain,
        seal=found.seal,
        completeness=found.completeness,
        identity=found.identity,
    )


def score_run(directory: Path) -> ScoredRun:
    """Compute the score card and the report of a run anew, and put both into its directory."""
    run = judge_run(directory)
    write_verdict(run.directory, run.evidence, run.card)
    return ScoredRun(directory=str(directory), entry=run.entry, card=run.card)


def list_runs(directory: Path, wanted: RunFilter) -> list[RunEntry]:
    """The runs in a directory that are wanted, each judged anew."""
    return [entry for run in iter_judged_runs(directory) if wanted.admits(entry := run.entry)]


def load_prices(prices: Path | None) -> PriceBook:
    """A price book; the one that comes with this release if none is named.

    Raises:
        PRICE_BOOK: it is not one.
    """
    return load_price_book(prices)


def list_event_types() -> list[str]:
    """The types of events that this release writes."""
    return sorted(kind.name for kind in iter_payload_types())


def iter_run_timeline(directory: Path) -> Iterator[TimelineRow]:
    """The events of a run, streamed, in a line each; nothing is verified."""
    paths = build_run_paths(directory)
    if not os.path.lexists(paths.trace):
        raise RUN_DIRECTORY_MISSING.error(
            f"{directory}: expected a run directory with trace.jsonl, found no such file"
        )
    return iter_timeline(paths)


def show_key(path: Path) -> KeyDescription:
    """The public half of the key in `path`; the key is made if there is none."""
    key: PublicKey = SigningKey.load(path).public_key
    return KeyDescription(key_id=key.key_id, public_key=key.pem, path=str(path))
