"""A look at a pilot that is under way: at complete tasks only, paid for and on record (B13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.conduct._frozen import load_documents
from repotrial.conduct._journal import Journal
from repotrial.conduct._looks import (
    LEAST_TASKS,
    find_look,
    is_asked,
    list_looks,
    write_asked,
    write_look,
)
from repotrial.conduct._record import verify_key
from repotrial.conduct._state import RecordedState
from repotrial.signing import SigningKey

_SAME: Final = 1e-9

LOOK_REFUSED = ErrorCode(
    "look-refused",
    UsageError,
    "A look at a pilot is possible in stage 3 only, once at least two tasks are complete.",
    hint="go on with `repotrial pilot run`; `repotrial pilot status` shows progress and a band at any time",
)


class HeldLook(NamedTuple):
    """A look that was asked for, and paid for."""

    tasks: tuple[str, ...]
    """The complete tasks: nothing else is shown."""
    runs: tuple[Path, ...]
    """Their runs."""
    message: str


def hold_look(directory: Path, key: SigningKey) -> HeldLook:
    """Look at complete tasks, with what that costs on record; at the same information it is paid once.

    Raises:
        LOOK_REFUSED: it is too early.
        KEY_NOT_REGISTERED: this key may not write the journal.
        PILOT_UNDER_WAY: a command conducts the pilot at this moment.
        PILOT_BROKEN: the pilot is not as it was frozen.
    """
    pilot, record, _ = load_documents(directory)
    verify_key(record.registration, key)
    with closing(Journal(directory, registration=record.registration.version, key=key)) as journal:
        state = RecordedState(pilot, directory, record, journal)
        complete, planned = state.list_complete(), len(state.tasks)
        if not journal.has_last_stage_begun or len(complete) < LEAST_TASKS:
            stage = "stage 3" if journal.has_last_stage_begun else "no stage 3 yet"
            raise LOOK_REFUSED.error(
                f"{directory}: expected stage 3 with at least {LEAST_TASKS} complete tasks, found {stage} "
                f"and {len(complete)} complete tasks"
            )
        _pay(state, len(complete) / planned, f"{len(complete)} of {planned}")
    names = {
        entry.directory
        for run_id, entry in record.list_counted(journal).items()
        if any(row.run_id == run_id and row.task in complete for row in state.rows)
    }
    return HeldLook(
        tasks=tuple(complete),
        runs=tuple(sorted((state.runs / name).resolve() for name in names if name is not None)),
        message=f"under way: a look at {len(complete)} of {planned} complete tasks",
    )


def _pay(state: RecordedState, fraction: float, tasks: str) -> None:
    journal = state.journal
    due = find_look(state)
    if due is not None:  # the registered one comes first, and may end the pilot as it would have
        write_look(journal, due)
        if due.is_stop:
            journal.append("stop", data={"message": due.message})
    here = [one for one in list_looks(journal) if abs(float(one.data["fraction"]) - fraction) < _SAME]
    if any(is_asked(one) for one in here):
        return
    alpha = float(state.pilot.level) / len(state.pilot.contrasts)
    write_asked(journal, fraction, alpha=alpha, tasks=tasks, is_registered=bool(here))


def iter_progress(directory: Path) -> Iterator[str]:
    """How far each stage is, and why runs have no outcome: over all arms together, so that no arm is told."""
    pilot, record, journal = load_documents(directory)
    state = RecordedState(pilot, directory, record, journal)
    for stage in (1, 2, 3):
        planned, due = len(state.list_planned(stage)), len(state.list_due(stage))
        yield f"stage {stage}: {planned - due} of {planned} runs are in"
    runs = [run for run in state.list_runs(1, 2, 3) if run.outcome is None]
    for cause, count in sorted(Counter(run.judged.entry.why or "unknown" for run in runs).items()):
        yield f"indeterminate: {count}: {cause}"
