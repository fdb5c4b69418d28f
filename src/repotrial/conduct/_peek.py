"""Rates by arm of a pilot that is under way: refused, or asked for, paid for and on record (B13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.conduct._journal import Journal
from repotrial.score import NO_RUNS, RUN_DIRECTORY_MISSING, find_run_directories

# What reads a pilot is imported where there is one: most directories of runs belong to none.

PEEK_REFUSED = ErrorCode(
    "peek-refused",
    UsageError,
    "Rates by arm of a pilot that is under way were asked for: alpha is spent by looking. Progress and "
    "causes are shown instead, over all arms together.",
    hint="`repotrial pilot status` has an always-valid band; single runs stay readable; in stage 3, --look "
    "shows rates, spends alpha and is a deviation unless the moment is registered",
)


def verify_no_peek(place: Path) -> None:
    """Refuse to aggregate runs of a pilot that is frozen and not at its end.

    Raises:
        PEEK_REFUSED: it is under way; the message has progress and causes.
    """
    for pilot in _find_pilots(place):
        if not _has_ended(pilot):
            raise _refuse(pilot)


def admit_places(places: Sequence[Path], look_key: Path | None = None) -> list[Path]:
    """Places whose runs may be aggregated by arm; with a look, only the runs of complete tasks.

    A single run stays readable, and this cannot be counted.

    Args:
        places: Run directories, or directories of them.
        look_key: The private key that signs a look; None: none is asked for.

    Raises:
        PEEK_REFUSED: a pilot is under way, and no look is asked for.
        LOOK_REFUSED: it is too early for one.
        KEY_NOT_REGISTERED: this key may not write the journal.
        PILOT_UNDER_WAY: a command conducts the pilot at this moment.
    """
    running = {pilot for place in places for pilot in _find_pilots(place) if not _has_ended(pilot)}
    if not running or [_list_runs(place) for place in places] == [[places[0]]]:
        return [*places]
    if look_key is None:
        raise _refuse(min(running))
    from repotrial.conduct._asked import hold_look
    from repotrial.signing import SigningKey

    key = SigningKey.load(look_key)
    shown = {run for pilot in sorted(running) for run in hold_look(pilot, key).runs}
    found = []
    for place in places:
        if running.isdisjoint(_find_pilots(place)):
            found.append(place)
        else:
            found += [run for run in _list_runs(place) if run.resolve() in shown]
    return found


def _refuse(directory: Path) -> UsageError:
    from repotrial.conduct._asked import iter_progress

    lines = "\n".join(f"  {line}" for line in iter_progress(directory))
    return PEEK_REFUSED.error(f"{directory}: expected a pilot at its end, found one under way:\n{lines}")


def _find_pilots(place: Path) -> set[Path]:
    """Frozen pilots that a place belongs to; links do not hide where a run lies."""
    here = place.resolve()
    candidates = {here, *here.parents[:2], *(run.resolve().parents[1] for run in _list_runs(place))}
    return {
        each for each in candidates if (each / "registrations").is_dir() and (each / "pilot.toml").is_file()
    }


def _list_runs(place: Path) -> list[Path]:
    try:
        return find_run_directories(place)
    except UsageError as error:
        if error.code in (NO_RUNS, RUN_DIRECTORY_MISSING):
            return []
        raise


def _has_ended(directory: Path) -> bool:
    from repotrial.conduct._freeze import load_registrations

    registrations = load_registrations(directory)
    if not registrations:
        return True  # nothing was frozen
    version = registrations[-1].signed.predicate.version
    return Journal(directory, registration=version).has_ended
