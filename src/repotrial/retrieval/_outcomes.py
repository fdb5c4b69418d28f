"""How trials ended and what they cost, from the files that harnesses leave beside their traces (R15, R16)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial.retrieval._json import dig, load_object
from repotrial.retrieval._walk import Trial, walk_run

OUTCOMES: Final = ("reward", "cost_usd", "wall_clock_seconds", "output_tokens")
"""What retrieval is held against, by field."""

LARGEST: Final = 1e18
"""What exceeds this is no measurement."""
_UNSTATED: Final = frozenset({"", "unknown", "none", "latest"})
"""What harnesses write for a version that they do not know."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one trial ended."""

    config_name: str
    """The configuration."""
    batch_timestamp: str
    """The batch; empty where it has none."""
    trial_name: str
    """The trial's directory."""
    stated_name: str
    """The task, as the trial calls it; prefixes of wrappers included."""
    reward: float | Unknown
    """What the harness gave for the result; 1 or 0 for runs of this one."""
    cost_usd: float | Unknown
    """Money."""
    wall_clock_seconds: float | Unknown
    """Of the agent's work alone, not of preparation and judgment."""
    output_tokens: float | Unknown
    """Tokens that the model wrote."""
    model: str | Unknown
    """The model."""
    harness: str | Unknown
    """The harness and its version; not known where no version is stated."""


def load_outcomes(run: Path) -> tuple[Outcome, ...]:
    """The outcome of every trial of a run of another harness; a field that cannot be read is not known."""
    return tuple(_load_outcome(trial) for trial in walk_run(run).trials)


def _load_outcome(trial: Trial) -> Outcome:
    result = load_object(trial.directory / "result.json")
    metrics = load_object(trial.directory / "task_metrics.json")
    return Outcome(
        config_name=trial.config_name,
        batch_timestamp=trial.batch_timestamp,
        trial_name=trial.directory.name,
        stated_name=trial.stated_name,
        reward=_first_number("reward", dig(result, "verifier_result", "rewards", "reward")),
        cost_usd=_first_number("cost", metrics.get("cost_usd"), dig(result, "agent_result", "cost_usd")),
        wall_clock_seconds=_first_number(
            "time of the agent's work",
            _measure_seconds(dig(result, "agent_execution")),
            metrics.get("agent_execution_seconds"),
        ),
        output_tokens=_first_number(
            "number of output tokens",
            metrics.get("output_tokens"),
            dig(result, "agent_result", "n_output_tokens"),
        ),
        model=_name_known("model", trial.model),
        harness=_name_harness(dig(result, "agent_info")),
    )


def _first_number(name: str, *candidates: Any) -> float | Unknown:
    for value in candidates:
        # A whole number that no float can hold is no figure that anybody measured.
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
            return float(value)
    return Unknown(f"no {name} is stated")


def _measure_seconds(span: Any) -> float | None:
    try:
        started, finished = (datetime.fromisoformat(dig(span, key)) for key in ("started_at", "finished_at"))
        seconds = (finished - started).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def _name_known(name: str, value: Any) -> str | Unknown:
    if isinstance(value, str) and value.strip().casefold() not in _UNSTATED:
        return value
    return Unknown(f"no {name} is stated")


def _name_harness(info: Any) -> str | Unknown:
    name, version = (_name_known(key, dig(info, key)) for key in ("name", "version"))
    if isinstance(name, Unknown) or isinstance(version, Unknown):
        return Unknown("no version of the harness is stated")
    return f"{name} {version}"
