"""Thresholds of the breakers: one file, one digest, its changes on record (P19).

Every value has a default that turns its step off: a record that was made before a breaker existed says
nothing of it, and is derived again without it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import read_package_data
from repotrial.contract import Limits

_MICROSECONDS = 1_000_000

RULES_VERSION: Final = 3
"""The newest version of the rules; this release has every version up to it.

Version 2 counts all failing checks against the contract's cap, not only those in a row, and reads exit
statuses and times of calls from the programs that ran for them.

Version 3 lets a run reach a cap of its contract and ends it where it passes one (B2), takes only checks that
pass and did not before for milestones (B15), and keeps tool calls to their rate (Q12).

A version covers what is counted, how it is compared, and the tables of programs and tools that are read for
it. A change by which a recorded run comes out otherwise is a new version, and the rules of the old one stay.
A further section or value needs none: where it is absent, it is off.
"""


THRESHOLDS_INVALID = ErrorCode(
    "thresholds-invalid",
    UsageError,
    "A file of thresholds is not one, or has a value that no breaker knows.",
    hint="start from the bundled file; every threshold is a whole number, and 0 turns a step off",
)
BREAKER_RULES_UNKNOWN = ErrorCode(
    "breaker-rules-unknown",
    UsageError,
    "Thresholds ask for a version of the breakers' rules that this release does not have.",
    hint="use a release that has this version of the rules: the manifest of the run names its own",
)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _CommandCeiling(_Section, frozen=True, kw_only=True):
    """Commands that take longer than the contract allows."""

    terminate_after: Count = 0
    """How many end the run."""


class Repeats(_Section, frozen=True, kw_only=True):
    """Something that is counted: an alert first, the end later."""

    alert_after: Count = 0
    """From which count on it is an alert."""
    terminate_after: Count = 0
    """At which count the run ends."""


class _IdenticalCalls(Repeats, frozen=True, kw_only=True):
    """The same call on the same tree."""

    throttle_after: Count = 0
    """From which count on the agent has to wait."""


class _RepeatedFailures(_Section, frozen=True, kw_only=True):
    """Failing checks in a row, each on a changed tree."""

    suspend_after: Count = 0
    """At which count the workspace becomes read-only."""
    roll_back_after: Count = 0
    """At which count it is set back to the last tree whose checks passed."""


class _MassDeletion(_Section, frozen=True, kw_only=True):
    """Many files deleted at once."""

    roll_back_after: Count = 0
    """How many are set back."""


class _ProhibitedOperation(_Section, frozen=True, kw_only=True):
    """What the policy prohibits."""

    quarantine_after: Count = 0
    """How many prohibited commands set the workspace aside."""
    terminate_after: Count = 0
    """How many end the run for safety."""
    calls_terminate_after: Count = 0
    """How many refused system calls end the run for safety."""


class _SuspiciousOperation(_Section, frozen=True, kw_only=True):
    """What a person should look at."""

    pause_after: Count = 0
    """How many suspicious commands stop the run until an operator decides."""


class _Dominance(_Section, frozen=True, kw_only=True):
    """A budget spent without milestones (B15)."""

    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    """Of a cap, spent since the last milestone."""


class _Silence(_Section, frozen=True, kw_only=True):
    """Nothing happens."""

    alert_seconds: Count = 0
    """Between two events of the agent."""


class _Burst(_Section, frozen=True, kw_only=True):
    """Many calls in a short time (P24)."""

    calls: Count = 0
    """How many."""
    window_seconds: Count = 0
    """In which time."""


class _ExpensiveRepeats(_Section, frozen=True, kw_only=True):
    """Long commands again and again without a change (P24)."""

    seconds: Count = 0
    """From when a command is expensive."""
    throttle_after: Count = 0
    """From which repetition on the agent has to wait."""


class _Backpressure(_Section, frozen=True, kw_only=True):
    """How long an agent has to wait (P24)."""

    first_wait_seconds: Count = 0
    """The first time."""
    factor: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    """Each time after, that many times longer."""
    most_wait_seconds: Count = 0
    """Never longer than this."""


class _OutputFlood(_Section, frozen=True, kw_only=True):
    """Output without end."""

    alert_bytes: Count = 0
    """Of one call."""
    terminate_bytes: Count = 0
    """Of all calls together."""


class ThresholdChange(_Section, frozen=True, kw_only=True):
    """A recorded change of the values."""

    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    """When."""
    what: Annotated[str, msgspec.Meta(min_length=1)]
    """Which values, from what to what."""
    evidence: Annotated[str, msgspec.Meta(min_length=1)]
    """Why: the audited evidence."""


class Thresholds(_Section, frozen=True, kw_only=True, rename="kebab"):
    """All thresholds, as their file has them."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/thresholds@1$")]
    """Format and version of the file."""
    rules: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Version of the rules; files of the first release do not name it."""
    command_ceiling: _CommandCeiling | None = None
    """Commands beyond the contract's ceiling."""
    identical_calls: _IdenticalCalls = _IdenticalCalls()
    """The same call on the same tree."""
    dependency_reinstalls: Repeats = Repeats()
    """Installs of the same package."""
    dependency_resolutions: Repeats = Repeats()
    """Installs, locks and resolutions of any kind."""
    oscillation: Repeats = Repeats()
    """Returns to a tree that has failed before."""
    repeated_failures: _RepeatedFailures = _RepeatedFailures()
    """Failing checks in a row."""
    mass_deletion: _MassDeletion = _MassDeletion()
    """Files deleted at once."""
    prohibited_operation: _ProhibitedOperation = _ProhibitedOperation()
    """What the policy prohibits."""
    suspicious_operation: _SuspiciousOperation = _SuspiciousOperation()
    """What a person should look at."""
    dominance: _Dominance = _Dominance()
    """A budget spent without milestones."""
    no_progress: Repeats = Repeats()
    """Calls since the tree last changed."""
    turns_without_calls: Repeats = Repeats()
    """Answers in a row that ask for no tool."""
    silence: _Silence = _Silence()
    """Time without events."""
    burst: _Burst = _Burst()
    """Many calls in a short time."""
    expensive_repeats: _ExpensiveRepeats = _ExpensiveRepeats()
    """Long commands without a change."""
    backpressure: _Backpressure = _Backpressure()
    """How long waits are."""
    output_flood: _OutputFlood = _OutputFlood()
    """Output without end."""
    changes: Annotated[tuple[ThresholdChange, ...], msgspec.Meta(min_length=1)]
    """Every change of the values, the first ones included."""
    digest: Digest = ""
    """Of the file; not part of it."""


class BreakerCaps(msgspec.Struct, frozen=True, kw_only=True):
    """The contract's limits that breakers hold events against; None: no such cap."""

    wall_us: Count
    """Time of the agent."""
    command_us: Count
    """Time of one command."""
    tokens: Count | None = None
    """Of all model calls together."""
    tool_calls: Count | None = None
    """Tool calls."""
    failed_check_cycles: Count | None = None
    """Failing checks; under version 1 of the rules, in a row."""
    cost_micro_usd: Count | None = None
    """Cost, in millionths of a dollar."""
    tool_calls_per_minute: Count | None = None
    """Tool calls within any minute."""


_CAPS_MAY_BE_REACHED: Final = 3
"""From this version of the rules on."""


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that breakers know besides the events."""

    thresholds: Thresholds
    """Published values."""
    caps: BreakerCaps
    """The contract's limits."""

    @property
    def first_beyond(self) -> int:
        """How far above a cap a count is too high: reaching a cap is allowed, passing it is not (B2)."""
        return 1 if self.thresholds.rules >= _CAPS_MAY_BE_REACHED else 0


def parse_thresholds(data: bytes) -> Thresholds:
    """Read a file of thresholds.

    Raises:
        BREAKER_RULES_UNKNOWN: it is for rules that this release does not have.
        THRESHOLDS_INVALID: it is no such file.
    """
    try:
        raw = tomllib.loads(data.decode())
        raw.pop("digest", None)
        # Before anything else: sections of another version are not known here either.
        _verify_rules(raw.get("rules", 1))
        parsed = msgspec.convert(raw, Thresholds)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise THRESHOLDS_INVALID.error(f"expected thresholds of breakers, found: {error}") from error
    return msgspec.structs.replace(parsed, digest=digest_bytes(data))


def _verify_rules(version: object) -> None:
    if isinstance(version, int) and version > RULES_VERSION:
        raise BREAKER_RULES_UNKNOWN.error(
            f"expected breaker rules of version {RULES_VERSION} or less, found version {version}"
        )


@cache
def _load_bundled() -> Thresholds:
    return parse_thresholds(read_thresholds())


def read_thresholds(path: Path | None = None) -> bytes:
    """The bytes of the bundled thresholds, or of a file: what a run keeps, to be judged again.

    Raises:
        THRESHOLDS_INVALID: the file cannot be read.
    """
    if path is None:
        return read_package_data("repotrial.policy", "thresholds.toml")
    try:
        return path.read_bytes()
    except OSError as error:
        raise THRESHOLDS_INVALID.error(
            f"{path}: expected a file of thresholds, found: {error.strerror}"
        ) from error


def build_settings(limits: Limits, thresholds: Thresholds | None = None) -> BreakerSettings:
    """A contract's limits and the thresholds."""
    return BreakerSettings(
        thresholds=thresholds or _load_bundled(),
        caps=BreakerCaps(
            wall_us=limits.wall_seconds * _MICROSECONDS,
            command_us=limits.command_seconds * _MICROSECONDS,
            tokens=limits.tokens,
            tool_calls=limits.tool_calls,
            failed_check_cycles=limits.failed_check_cycles,
            cost_micro_usd=int(limits.cost_usd * _MICROSECONDS),
            tool_calls_per_minute=limits.tool_calls_per_minute,
        ),
    )
