"""Verbs on runs and on the key that seals them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from repotrial.api._archive import ArchivedRun, describe_archived
from repotrial.conduct import admit_places
from repotrial.cost import PriceBook, load_price_book
from repotrial.score import (
    RUN_DIRECTORY_MISSING,
    ProgramsView,
    RunEntry,
    RunFilter,
    ScoreCard,
    build_run_paths,
    find_stop,
    iter_judged_runs,
    iter_vouched,
    judge_run,
    load_evidence,
    read_programs,
    write_verdict,
)
from repotrial.signing import PublicKey, SigningKey, Trust, TrustedKeys, TrustList
from repotrial.trace import AspectVerdict, Holds, TimelineRow, check_run, iter_payload_types, iter_timeline


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
    withdrawn_count: int
    """So many bodies were taken out after the run; their digests are still there."""
    archived: ArchivedRun | None
    """What a receipt accounts for; None if nothing was taken out."""
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


class ListedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose seals are believed here."""

    name: str
    """How the operator calls it; `own` for this machine's."""
    trust: Trust
    key_id: str
    """Its fingerprint."""


class KeyRing(NamedTuple):
    """The keys whose seals are believed on a machine: its own, and those that its `trust.toml` lists."""

    own: Path | None
    """The private key; None if the machine has no place for one."""
    trust_file: Path | None

    def load(self, files: Sequence[Path] = ()) -> TrustedKeys:
        """Whose seals are believed, those of the keys in `files` too.

        Raises:
            TRUST_FILE: the list cannot be read.
            BAD_PUBLIC_KEY: a file holds no public key.
        """
        listed = {} if self.trust_file is None else TrustList(self.trust_file).load()
        named = {path.name: PublicKey.load(path) for path in files}
        own = next(iter(load_trusted_keys((), self.own)), None)
        return TrustedKeys.build(own, [*listed.items(), *named.items()])

    def list_keys(self) -> list[ListedKey]:
        """All of them, by name."""
        found = [
            ListedKey(name="own", trust="own", key_id=key.key_id) for key in load_trusted_keys((), self.own)
        ]
        listed = {} if self.trust_file is None else TrustList(self.trust_file).load()
        return found + [
            ListedKey(name=name, trust="listed", key_id=key.key_id) for name, key in listed.items()
        ]

    def add(self, name: str, public_key: Path) -> ListedKey:
        """Believe seals of a key from now on."""
        key = PublicKey.load(public_key)
        self._open().add(name, key)
        return ListedKey(name=name, trust="listed", key_id=key.key_id)

    def remove(self, name: str) -> ListedKey:
        """Believe seals of a key no longer."""
        key = self._open().remove(name)
        return ListedKey(name=name, trust="unknown signer", key_id=key.key_id)

    def _open(self) -> TrustList:
        assert self.trust_file is not None, "the command found a place for it"
        return TrustList(self.trust_file)


def verify_run(directory: Path, *, trusted_keys: Sequence[PublicKey] | None) -> RunCheck:
    """Check chain, seal, completeness and identity of a run directory.

    Args:
        directory: The run directory; a copy on another machine is as good.
        trusted_keys: Whose seal is believed. None asks only whether anything changed since it was sealed.
    """
    paths = build_run_paths(directory)
    found = check_run(paths, trusted_keys=_add_workers(directory, trusted_keys) or None)
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
        withdrawn_count=len(found.chain_report.withdrawn),
        archived=describe_archived(found),
        chain=found.chain,
        seal=found.seal,
        completeness=found.completeness,
        identity=found.identity,
    )


def _add_workers(directory: Path, trusted_keys: Sequence[PublicKey] | None) -> list[PublicKey]:
    """Keys that are believed, with those of workers that one of them vouches for."""
    known = [*(trusted_keys or ())]
    return known + [worker for worker, study in iter_vouched(directory.absolute().parent) if study in known]


def score_run(directory: Path, keys: TrustedKeys | None = None) -> ScoredRun:
    """Compute the score card and the report of a run anew, and put both into its directory."""
    run = judge_run(directory, keys)
    write_verdict(run.directory, run.evidence, run.card)
    return ScoredRun(directory=str(directory), entry=run.entry, card=run.card)


def list_runs(
    directory: Path, wanted: RunFilter, keys: TrustedKeys | None = None, *, look_key: Path | None = None
) -> list[RunEntry]:
    """The runs in a directory that are wanted, each judged anew.

    Args:
        directory: A directory of runs.
        wanted: Which.
        keys: Whose seals are believed.
        look_key: The private key that signs a look at a pilot in stage 3; None: none is asked for.

    Raises:
        PEEK_REFUSED: they are of a pilot that is under way.
    """
    return [
        entry
        for place in admit_places([directory], look_key)
        for run in iter_judged_runs(place, keys)
        if wanted.admits(entry := run.entry)
    ]


NO_PRICES: Final = Path("none")
"""Named in place of a price book: everything is priced by the abstract schedule (P21)."""


def load_prices(prices: Path | None) -> PriceBook | None:
    """A price book; the one that comes with this release if none is named, and no book for `NO_PRICES`.

    Raises:
        PRICE_BOOK: it is not one.
    """
    return None if prices == NO_PRICES else load_price_book(prices)


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


def show_programs(directory: Path) -> ProgramsView:
    """What ran while the agent acted: every call with its programs; nothing is verified.

    Raises:
        RUN_DIRECTORY_MISSING: there is no such run.
        EvidenceError: the trace cannot be read.
    """
    return read_programs(build_run_paths(directory))


def show_key(path: Path) -> KeyDescription:
    """The public half of the key in `path`; the key is made if there is none."""
    key: PublicKey = SigningKey.load(path).public_key
    return KeyDescription(key_id=key.key_id, public_key=key.pem, path=str(path))
