"""An attempt has ended: it counts, it is repeated, or its planned run is indeterminate (P5)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import RepoTrialError
from repotrial.analysis import PlannedRow
from repotrial.conduct._journal import AGAIN, Journal
from repotrial.cost import Amount, PriceBook
from repotrial.score import MOST_ATTEMPTS, JudgedRun, judge_run, price_run, write_verdict
from repotrial.trace import RunPaths


class Intake:
    """Writes the end of attempts into the journal; what they cost is in the ledger by then.

    Args:
        journal: Of the pilot.
        book: Its prices.
        since: The first registration whose runs count.
    """

    def __init__(self, journal: Journal, book: PriceBook, *, since: int) -> None:
        self._journal = journal
        self._book = book
        self._since = since

    def take(self, row: PlannedRow, directory: Path) -> JudgedRun:
        """Judge an attempt at a planned run, and say how it counts.

        Its cause alone excuses it: a fault that a candidate can bring about counts against the candidate.
        Without an attempt that counts, the last one allowed leaves the planned run indeterminate.
        """
        judged = judge_run(directory)
        write_verdict(directory, judged.evidence, judged.card)
        cause = judged.cause
        attempts = self._journal.count_attempts(row.run_id, since=self._since)
        if cause.is_excused and attempts + 1 < MOST_ATTEMPTS:
            self.set_aside(row.run_id, directory)
            return judged
        data = {"indeterminate": cause.cause} if cause.is_excused else {}
        self._journal.append(
            "conducted",
            run_id=row.run_id,
            directory=directory.name,
            seal_digest=_digest_seal(directory),
            data={**data, **self._price(directory)},
        )
        return judged

    def set_aside(self, run_id: str, directory: Path) -> None:
        """An attempt that is excused and repeated: on record, and in no rate."""
        judged = judge_run(directory)
        self._journal.append(
            "broken",
            run_id=run_id,
            directory=directory.name,
            seal_digest=_digest_seal(directory),
            data={"cause": judged.cause.cause, **self._price(directory)},
        )

    def take_again(self, row: PlannedRow, run_id: str, directory: Path) -> None:
        """A change was judged again."""
        judged = judge_run(directory)
        write_verdict(directory, judged.evidence, judged.card)
        self._journal.append(
            "judged-again",
            run_id=run_id,
            directory=directory.name,
            seal_digest=_digest_seal(directory),
            data={AGAIN: row.run_id, **self._price(directory)},
        )

    def adopt(self, planned: Sequence[PlannedRow], runs: Path) -> None:
        """Attempts that were sealed when an earlier command was killed, before it could journal them."""
        rows = {row.run_id: row for row in planned}
        known = {entry.directory for entry in self._journal.entries}
        for run_id, entry in self._journal.open_starts.items():
            row = rows.get(entry.data.get(AGAIN, run_id))
            for directory in _iter_sealed(runs, run_id, since_us=entry.at_us):
                if row is None or directory.name in known or run_id in self._journal.ended:
                    continue
                if AGAIN in entry.data:
                    self.take_again(row, run_id, directory)
                else:
                    self.take(row, directory)

    def _price(self, directory: Path) -> dict[str, str]:
        """Execution, people and overhead in dollars; terms without a price are named. Models are beside."""
        statement = price_run(directory, self._book).statement
        amounts = {name: getattr(statement, name) for name in ("exec", "human", "overhead")}
        priced = [each for each in amounts.values() if isinstance(each, Amount) and each.unit == "usd"]
        spent = sum((each.decimal for each in priced), start=Decimal(0))
        unpriced = [name for name, each in amounts.items() if not isinstance(each, Amount)]
        return {"usd": str(spent), "unpriced": ", ".join(unpriced)}


def _digest_seal(directory: Path) -> str | None:
    seal = RunPaths(directory).seal
    return digest_bytes(seal.read_bytes()) if seal.is_file() else None


def _iter_sealed(runs: Path, run_id: str, *, since_us: int) -> list[Path]:
    """Sealed attempts at a run that began after a time, in their order."""
    found = []
    for path in sorted(runs.glob(f"{run_id}*")):
        try:
            judged = judge_run(path)
        except RepoTrialError:
            continue
        began = judged.entry.started_at_us
        if judged.evidence.seal != "absent" and began is not None and began >= since_us:
            found.append((began, path))
    return [path for _, path in sorted(found)]
