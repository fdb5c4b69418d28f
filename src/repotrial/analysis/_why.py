"""Why a run ended as it did, short enough for one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from repotrial._core.display import list_some, mark_cap, neutralize
from repotrial.score import GateResult, JudgedRun

_MOST: Final = 4
_MOST_CHARACTERS: Final = 200
_MICRO: Final = "_us"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an answer."""

    word: str
    """What it is about."""
    text: str
    seq: int | None = None
    """The event to look at; null if it is about none."""


class RunWhy(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run ended as it did."""

    directory: str
    status: str
    contract: str | None
    agent: str | None
    ended: str
    """One word for the end."""
    reasons: tuple[Reason, ...]
    """The decisive one first."""
    next: str
    """The command that shows more."""


def explain_run(run: JudgedRun) -> RunWhy:
    """The decisive reasons, the end, what led to it, and what was spent against which cap."""
    entry = run.entry
    reasons = (*_iter_verdict(run), *_iter_end(run), *_iter_spent(run), *_iter_notes(run))
    return RunWhy(
        directory=entry.directory,
        status=entry.status,
        contract=entry.contract,
        agent=entry.agent,
        ended=run.cause.cause,
        reasons=tuple(msgspec.structs.replace(reason, text=mark_cap(reason.text)) for reason in reasons),
        next=_find_next(run),
    )


def _iter_verdict(run: JudgedRun) -> Iterator[Reason]:
    for reason in run.reasons[:_MOST]:
        yield Reason(word="invalid", text=f"{reason.code}: {_cut(reason.message)}", seq=reason.seq)
    if len(run.reasons) > _MOST:
        yield Reason(word="invalid", text=f"and {len(run.reasons) - _MOST} more reasons")
    open_gates = [gate for gate in run.card.gates if gate.outcome != "passed"]
    if not open_gates:
        yield Reason(word="gates", text="all four passed")
    for gate in open_gates:
        yield from _iter_gate(gate)
    for check in run.card.checks:
        if check.failing_tests:
            names = list_some(check.failing_tests, most=_MOST)
            yield Reason(word="failing", text=f"{check.check}: {_cut(names)}", seq=_first(check.events))


def _iter_gate(gate: GateResult) -> Iterator[Reason]:
    word = f"{gate.gate} {gate.outcome}"
    open_lines = [line for line in gate.why if not line.endswith(": passed")]
    for line in open_lines[:_MOST] or [gate.name]:
        yield Reason(word=word, text=_cut(line), seq=_first(gate.evidence))


def _first(pointers: tuple[object, ...]) -> int | None:
    return next((seq for pointer in pointers if (seq := getattr(pointer, "seq", None)) is not None), None)


def _iter_end(run: JudgedRun) -> Iterator[Reason]:
    end = run.evidence.termination
    cause = run.cause
    excused = "; the attempt is excused and repeated" if cause.is_excused else ""
    yield Reason(word="cause", text=f"{cause.cause}{excused}", seq=next(iter(cause.evidence), None))
    if end is None:
        yield Reason(word="ended", text="no single end of acting is on record")
        return
    nature = "" if end.event.nature == "none" else f", {end.event.nature}"
    cap = " (a cap is a policy choice)" if end.event.nature == "resource" else ""
    text = f"{end.event.category}{nature}: {_cut(end.event.rationale or end.event.code)}{cap}"
    yield Reason(word="ended", text=text, seq=end.seq)
    cited = set(end.event.evidence)
    for alert in run.evidence.facts.alerts:
        if alert.seq in cited:
            yield Reason(word="led to it", text=f"alert {alert.rule} of {alert.monitor}", seq=alert.seq)
    for item in run.evidence.facts.interventions:
        if item.seq in cited:
            tag = item.event.action.__struct_config__.tag
            text = f"intervention {tag} {_cut(item.event.detail)}".rstrip()
            yield Reason(word="led to it", text=text, seq=item.seq)


def _iter_spent(run: JudgedRun) -> Iterator[Reason]:
    end = run.evidence.termination
    signals = () if end is None else end.event.signals
    for signal in signals:
        if signal.threshold is not None and signal.value not in (0, "0"):
            value, threshold = (_show(signal.name, number) for number in (signal.value, signal.threshold))
            name = signal.name.removesuffix(_MICRO).removesuffix("_bytes").replace("_", " ")
            yield Reason(word="spent", text=f"{name} {value} of a cap of {threshold} (policy choice)")


def _show(name: str, value: object) -> str:
    if name.endswith(_MICRO) and isinstance(value, int):
        return f"{value / 1_000_000:.1f} s"
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / 1024**2:.0f} MiB"
    return str(value)


def _iter_notes(run: JudgedRun) -> Iterator[Reason]:
    if run.entry.is_unanswered:
        yield Reason(word="look at", text="no model ever answered: the key, the provider, the limits")
    if run.evidence.seal == "absent":
        yield Reason(word="look at", text="not sealed: nothing shows that the record was left as it was made")
    for remark in run.card.deviations[:_MOST]:
        yield Reason(word="deviation", text=f"{remark.code}: {_cut(remark.message)}")


def _find_next(run: JudgedRun) -> str:
    place = shlex.quote(str(run.directory))
    failed = next((check.check for check in run.card.checks if check.verdict != "passed"), None)
    if failed is not None:
        return f"repotrial run show {place} --output {shlex.quote(failed)}"
    return f"repotrial report build {place}"


def _cut(text: str) -> str:
    return neutralize(text, max_characters=_MOST_CHARACTERS)
