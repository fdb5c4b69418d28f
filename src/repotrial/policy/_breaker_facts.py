"""Events as breakers see them: calls with their identity, the tree by a digest, spending."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.words import AlertSeverity, LifecyclePhase, TerminationCategory, TerminationNature
from repotrial.policy._tools import ToolFamily, read_tool_use
from repotrial.shell import find_classes, find_installs, parse_shell
from repotrial.trace import (
    BinaryBody,
    Body,
    Exited,
    ExitStatus,
    ExitUnknown,
    FileAdded,
    FileChange,
    FileDeleted,
    FileModified,
    ModeChanged,
    MonitorAlert,
    NotStarted,
    PathEntry,
    Signal,
    Signaled,
    TextBody,
    TimedOut,
    ToolInvocation,
    WorkspaceMutation,
)

BREAKERS: Final = "breakers"
"""The monitor whose alerts these are."""

ActionKind: TypeAlias = Literal["pause", "suspend-writes", "roll-back", "quarantine", "throttle", "terminate"]
"""As the trace's interventions are called."""


class BreakerEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How the termination reads that a decision asks for."""

    code: str
    """Stable kebab-case reason."""
    nature: TerminationNature
    """Safety or resource."""
    category: TerminationCategory = "circuit-breaker"
    """Who ends it."""
    rationale: str
    """The reason in a sentence."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a breaker decides at an event."""

    rule: str
    """Which rule."""
    severity: AlertSeverity
    """How grave it is."""
    signals: tuple[Signal, ...]
    """The values against their thresholds."""
    evidence: tuple[Count, ...]
    """The events that it rests on; at most 20."""
    at: Count
    """The event at which it was decided."""
    phase: LifecyclePhase = "act"
    """The phase of the run."""
    alert: Count | None = None
    """An alert of another monitor that asks for it; None: the decision is an alert of its own."""
    action: ActionKind | None = None
    """What is to be done; None: nothing more than the alert."""
    wait_us: Count | None = None
    """How long the agent has to wait."""
    restore: Count | None = None
    """The workspace goes back to how it was after this event; None: to how the agent found it."""
    ending: BreakerEnding | None = None
    """How the run ends, where it does."""

    def build_alert(self) -> MonitorAlert:
        """The event that puts the decision on record."""
        return MonitorAlert(
            monitor=BREAKERS,
            rule=self.rule,
            severity=self.severity,
            phase=self.phase,
            signals=self.signals,
            evidence=self.evidence,
        )


ChecksOutcome: TypeAlias = Literal["passed", "failed", "unknown"]

_EXIT_CODE = re.compile(
    r"(?:exit(?:ed)?[ _]?(?:with )?(?:code|status)|return ?code)\"?>?\s*[:=]?\s*\"?(?P<code>\d{1,3})",
    re.IGNORECASE,
)
_FAILURES = re.compile(
    r"(?P<count>\b[1-9]\d*) (?:failed|errors?|failing|failures?)\b|^FAILED \(|^(?:FAIL|FAILED|ERROR)[:\t ]"
    r"|test result: FAILED|--- FAIL|^# fail [1-9]|^not ok \d|Tests:\s+[1-9]\d* failed|BUILD FAIL"
    r"|\bno tests ran\b|ERROR: not found|^Traceback \(most recent call last\)|No module named",
    re.MULTILINE,
)
_PASSES = re.compile(
    r"\b[1-9]\d* (?:passed|passing)\b|^OK(?: \(|$)|test result: ok|^ok\s|^# pass [1-9]|^PASS\b|BUILD SUCCESS"
    r"|All tests passed|^Tests:\s+[1-9]\d* passed",
    re.MULTILINE,
)


def find_result(exit_status: ExitStatus, printed: str | None) -> ChecksOutcome:
    """Whether checks passed; `unknown` where neither the exit status nor the text says it."""
    match exit_status:
        case Exited(code=code):
            return "passed" if code == 0 else "failed"
        case Signaled() | TimedOut():
            return "failed"
        case NotStarted():
            return "unknown"
        case ExitUnknown():
            return _read_printed(printed or "")


def _read_printed(text: str) -> ChecksOutcome:
    # Runners put their summary last; a pipe through `tail` hides the exit code, so the words count first.
    tail = text[-4000:]
    if _FAILURES.search(tail):
        return "failed"
    if _PASSES.search(tail):
        return "passed"
    codes = [int(found["code"]) for found in _EXIT_CODE.finditer(text[:500] + "\n" + tail)]
    if not codes:
        return "unknown"
    return "failed" if codes[-1] else "passed"


BodyReader: TypeAlias = Callable[[Body], str | None]
"""A body's text, redacted as the trace has it; None where it cannot be had."""

_MODULUS: Final = 1 << 256


def read_inline(body: Body) -> str | None:
    """The text of a body that stands in its event."""
    return body.text if isinstance(body, TextBody) else None


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call."""

    seq: int
    at_us: int
    tool: str
    family: ToolFamily
    texts: tuple[str, ...]
    """Scripts and code that it was told to run."""
    paths: tuple[str, ...]
    """Files that it names."""
    identity: str
    """The same for calls that differ only in what they say for people."""
    installs: tuple[tuple[str, ...], ...]
    """Packages, for each command that resolves dependencies."""
    result: ChecksOutcome | None
    """Whether checks passed; None if it ran none."""
    exit: ExitStatus
    started_at_us: int
    """When the agent was told to make it."""
    wall_us: int
    """Until its result came."""
    has_result: bool
    is_over_ceiling: bool
    """Whether a ceiling of the harness ended it."""
    output_bytes: int


class TreeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace after a change."""

    seq: int
    digest: str
    """The same for the same content."""
    deleted: int
    """Files that this change deleted."""


def read_call(
    invocation: ToolInvocation, *, seq: int, at_us: int, read: BodyReader = read_inline
) -> CallFacts:
    """What a recorded call did, from its arguments and its result."""
    arguments = _read(invocation.arguments, read)
    use = read_tool_use(invocation.tool, arguments if arguments is not None else "")
    scripts = [parse_shell(text) for text in use.commands]
    result = None
    if use.family == "test" or any("test" in find_classes(script) for script in scripts):
        printed = None if invocation.result is None else _read(invocation.result, read)
        result = find_result(invocation.exit, printed)
    identity = f"{invocation.tool}\0{invocation.arguments.digest}" if arguments is None else use.identity
    return CallFacts(
        seq=seq,
        at_us=at_us,
        tool=invocation.tool,
        family=use.family,
        texts=(*use.commands, *(() if use.code is None else (use.code,))),
        paths=use.paths,
        identity=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest(),
        installs=tuple(install for script in scripts for install in find_installs(script)),
        result=result,
        exit=invocation.exit,
        started_at_us=invocation.started_at_us,
        wall_us=invocation.wall_us,
        has_result=invocation.result is not None,
        is_over_ceiling=isinstance(invocation.exit, TimedOut),
        output_bytes=_count_output(invocation),
    )


def _read(body: Body, read: BodyReader) -> str | None:
    return None if isinstance(body, BinaryBody) else read(body)


def _count_output(invocation: ToolInvocation) -> int:
    streams = [each.length_bytes for each in (invocation.stdout, invocation.stderr) if each is not None]
    handed_back = 0 if invocation.result is None else invocation.result.length_bytes
    return max(sum(streams), handed_back)


class TreeView:
    """The workspace as its changes tell it; the digest needs no walk over the whole tree."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._sum = 0

    @property
    def digest(self) -> str:
        """The same for the same content, relative to what the agent found."""
        return f"{self._sum:064x}"

    def take(self, mutation: WorkspaceMutation, seq: int) -> TreeFacts:
        """Follow one change."""
        deleted = 0
        for change in mutation.changes:
            before, after = _describe(change)
            deleted += isinstance(change, FileDeleted)
            self._set(change.path, before, after)
        return TreeFacts(seq=seq, digest=self.digest, deleted=deleted)

    def _set(self, path: str, before: str, after: str) -> None:
        first = self._first.setdefault(path, before)
        current = self._now.get(path)
        if current is not None:
            self._sum = (self._sum - _weigh(path, current)) % _MODULUS
        if after == first:
            self._now.pop(path, None)
        else:
            self._now[path] = after
            self._sum = (self._sum + _weigh(path, after)) % _MODULUS


def _weigh(path: str, entry: str) -> int:
    data = f"{path}\0{entry}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(data).digest(), "big")


def _describe(change: FileChange) -> tuple[str, str]:
    match change:
        case FileAdded(after=after):
            return "", _name(after)
        case FileModified(before=before, after=after):
            return _name(before), _name(after)
        case FileDeleted(before=before):
            return _name(before), ""
        case ModeChanged(before_mode=before_mode, after_mode=after_mode):
            return f"mode:{before_mode}", f"mode:{after_mode}"


def _name(entry: PathEntry) -> str:
    return msgspec.json.encode(entry).decode()
