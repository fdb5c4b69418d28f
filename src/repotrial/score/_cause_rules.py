"""Why acting, acceptance and sealing can end: rules in the order in which they are asked.

Each has the words for people beside the function that decides, so that neither can say something else than
the other; the page about verdicts is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from repotrial.score._evidence import Alert, Evidence
from repotrial.score._gates import RunStatus, Scorable
from repotrial.trace import Exited, Termination

Cause: TypeAlias = Literal[
    "finished",
    "gave-up",
    "refused",
    "output-limit",
    "run-limit",
    "safety",
    "operator",
    "provider",
    "configuration",
    "shared-envelope",
    "machine",
    "harness",
]
"""What ended a run. `gave-up`: the agent gave up or crashed; `refused`: the model did; `output-limit`: an
answer was cut by its own limit; `run-limit`: a limit of this run; `machine`: the host lacked something."""
Part: TypeAlias = Literal["acting", "acceptance", "sealing"]

LOSSES: Final = frozenset({"launcher-lost", "helper-lost", "supervisor-lost", "gateway-lost"})
"""Parts of the harness that no program in a sandbox reaches."""
REPEATED_AT_ONCE: Final[frozenset[Cause]] = frozenset({"harness", "machine"})
"""What the same command repeats; for others something has to be put right first."""
_NEVER_BEGAN: Final = frozenset({"agent-not-started", "agent-preparation"})
_WITHOUT_VERDICT: Final[frozenset[Cause]] = frozenset({"safety", "operator", "harness"})
_REFUSALS: Final = frozenset({"refusal", "content_filter", "safety", "prohibited_content", "blocklist"})
_OUTPUT_LIMITS: Final = frozenset({"length", "max_tokens", "max_output_tokens"})


class CauseView:
    """A run's evidence as the rules ask for it."""

    def __init__(self, evidence: Evidence, status: RunStatus) -> None:
        self.facts = evidence.facts
        self.is_sealed = evidence.seal != "absent"
        self.is_of_machine = isinstance(status, Scorable) and status.fault == "machine"
        end = evidence.termination
        self.end: Termination | None = None if end is None else end.event
        self.proof = () if end is None else (end.seq,)
        self.stop = self._find_stop()
        """What kept acceptance from its end."""

    @property
    def is_judged(self) -> bool:
        """Whether something was: a stop must not depend on how the run would end.

        That a change applies says nothing about its checks; that it does not apply decides them all.
        """
        facts = self.facts
        return bool(facts.executions) or any(patch.event.tree_digest is None for patch in facts.patches)

    def has_fault(self, *codes: str) -> bool:
        """Whether acting ended by a fault of the harness; with codes: by one of them."""
        end = self.end
        return end is not None and end.category == "harness-fault" and (not codes or end.code in codes)

    @property
    def is_with_model(self) -> bool:
        """Whether the agent's program ended by itself, or because no model answered."""
        return self.end is not None and (
            self.has_fault("model-unreachable") or self.end.category in {"agent-exit", "completed"}
        )

    @property
    def confirmed_troubles(self) -> frozenset[str]:
        """Kinds of trouble that the agent met, where one was open at the end and the harness met it, too."""
        provider = self.facts.provider
        is_confirmed = provider.open_trouble is not None and provider.control is not None
        return frozenset(provider.troubles) if is_confirmed and self.is_with_model else frozenset()

    @property
    def trouble_proof(self) -> tuple[int, ...]:
        provider = self.facts.provider
        return tuple(seq for seq in (provider.open_trouble, provider.control) if seq is not None)

    def _find_stop(self) -> Alert | None:
        for alert in self.facts.alerts:
            is_unpaid = (alert.monitor, alert.phase) == ("budget", "accept")
            if alert.severity == "critical" and (is_unpaid or alert.monitor == "harness"):
                return alert
        return None

    def is_stopped_by(self, monitor: str, *rules: str) -> tuple[int, ...] | None:
        """The alert that kept acceptance from its end, if it is of this monitor, and of one of the rules."""
        stop = self.stop
        if stop is None or stop.monitor != monitor or (rules and stop.rule not in rules):
            return None
        return (stop.seq,)


class CauseRule(NamedTuple):
    """One way in which a part of a run ends."""

    part: Part
    cause: Cause
    evidence: str
    """What the record must show, for people."""
    find: Callable[[CauseView], tuple[int, ...] | None]
    """The events that show it; None: it is not so."""
    is_excused: bool = False

    @property
    def counts(self) -> str:
        """How the attempt counts."""
        if self.is_excused:
            return "excused"
        return "0" if self.cause in _WITHOUT_VERDICT else "by its checks"

    @property
    def repeated(self) -> str:
        """What is repeated, and by what."""
        if not self.is_excused:
            return "nothing"
        return "the run, at once" if self.cause in REPEATED_AT_ONCE else "the run, by the next command"


def _when(condition: Callable[[CauseView], bool]) -> Callable[[CauseView], tuple[int, ...] | None]:
    """Shown by the event that says how acting ended."""
    return lambda view: view.proof if condition(view) else None


def _is_rejected(view: CauseView) -> bool:
    """Whether the provider refuses what the plan asks for, and did from the beginning."""
    return (
        view.facts.provider.control_rule == "control-rejected"
        and not view.facts.provider.answers
        and "provider-rejected" in view.confirmed_troubles
    )


def _is_over_rate(view: CauseView) -> bool:
    is_unavailable = view.facts.provider.control_rule != "control-rejected"
    is_limited = "provider-rate-limited" in view.confirmed_troubles
    return is_unavailable and is_limited and view.facts.provider.is_throttled


def _is_outage(view: CauseView) -> bool:
    is_unavailable = view.facts.provider.control_rule != "control-rejected"
    return is_unavailable and bool(view.confirmed_troubles - {"other-request", "provider-rejected"})


def _is_starved(view: CauseView) -> bool:
    is_timeout = view.end is not None and view.end.category == "run-timeout"
    return is_timeout and view.facts.program_supply == "starved"


def _is_limited(view: CauseView) -> bool:
    end = view.end
    return end is not None and (
        end.nature == "resource" or end.category in {"run-timeout", "circuit-breaker"}
    )


def _has_failed(view: CauseView) -> bool:
    is_troubled = view.facts.provider.open_trouble is not None
    return is_troubled or view.facts.program_exit not in (None, Exited(code=0))


def _stops_with(*reasons: str) -> Callable[[CauseView], bool]:
    return lambda view: (view.facts.provider.last_stop or "").lower() in reasons


CAUSE_RULES: Final = (
    CauseRule(
        "acting",
        "harness",
        "the record stops while the agent acts: the harness was killed",
        _when(lambda view: view.end is None and not view.facts.is_ended),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "harness",
        "the record goes on, but does not say how acting ended",
        _when(lambda view: view.end is None),
    ),
    CauseRule(
        "acting",
        "safety",
        "a safety rule, or an operator asked by one, ended it",
        _when(lambda view: view.end is not None and view.end.nature == "safety"),
    ),
    CauseRule(
        "acting",
        "operator",
        "an operator stopped it before anything was judged",
        _when(
            lambda view: view.end is not None and view.end.category == "operator-abort" and not view.is_judged
        ),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "operator",
        "an operator stopped it when something was judged",
        _when(lambda view: view.end is not None and view.end.category == "operator-abort"),
    ),
    CauseRule(
        "acting",
        "configuration",
        "every request was refused, and so was the harness's own on the same upstream",
        lambda view: view.trouble_proof if _is_rejected(view) else None,
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "run-limit",
        "a 429, after the run passed the rate of its plan and was held back to it",
        lambda view: view.trouble_proof if _is_over_rate(view) else None,
    ),
    CauseRule(
        "acting",
        "provider",
        "trouble that was open at the end (429, 5xx, no answer, a broken stream) on a request as the plan "
        "has it, and the harness's own request within the same minute met it, too",
        lambda view: view.trouble_proof if _is_outage(view) else None,
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "gave-up",
        "no model answered, and the harness's own request was answered",
        _when(lambda view: view.has_fault("model-unreachable")),
    ),
    CauseRule(
        "acting",
        "configuration",
        "the agent's program, or a command that has to come before it, could not be started",
        _when(lambda view: view.has_fault(*_NEVER_BEGAN)),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "harness",
        "the launch server, the helper, the supervisor of system calls or the gateway was lost, or the "
        "harness failed before the agent began",
        _when(lambda view: view.has_fault(*LOSSES) or (view.has_fault() and not view.facts.has_briefing)),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "machine",
        "the sandbox was lost, and so was another one that was opened for the purpose",
        _when(lambda view: view.has_fault("agent-sandbox-lost")),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "harness",
        "another fault of the harness, such as a tree that cannot be read: a candidate can make them",
        _when(lambda view: view.has_fault()),
    ),
    CauseRule(
        "acting",
        "shared-envelope",
        "a budget that runs share was closed, while the run's own caps were not reached",
        _when(lambda view: view.end is not None and view.end.code == "shared-envelope"),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "configuration",
        "the run's own budget was used up before the agent began",
        _when(
            lambda view: (
                view.end is not None and view.end.nature == "resource" and not view.facts.has_briefing
            )
        ),
        is_excused=True,
    ),
    CauseRule(
        "acting",
        "machine",
        "its time was up, and what ran outside its sandbox had kept it from the processors",
        _when(_is_starved),
        is_excused=True,
    ),
    CauseRule("acting", "run-limit", "a limit or a breaker of this run ended it", _when(_is_limited)),
    CauseRule(
        "acting",
        "gave-up",
        "its program ended with another code than 0, by a signal, or in trouble with the model that the "
        "harness did not meet",
        _when(_has_failed),
    ),
    CauseRule(
        "acting",
        "refused",
        "the last answer's stop reason says that the model refused",
        _when(_stops_with(*_REFUSALS)),
    ),
    CauseRule(
        "acting",
        "output-limit",
        "the last answer's stop reason says that its own limit cut it",
        _when(_stops_with(*_OUTPUT_LIMITS)),
    ),
    CauseRule("acting", "finished", "the agent's program ended with code 0", lambda _: ()),
    CauseRule(
        "acceptance",
        "shared-envelope",
        "a budget that runs share was closed while checks were executed",
        lambda view: view.is_stopped_by("budget", "shared-envelope"),
        is_excused=True,
    ),
    CauseRule(
        "acceptance",
        "run-limit",
        "the run's own budget was used up while checks were executed",
        lambda view: view.is_stopped_by("budget"),
    ),
    CauseRule(
        "acceptance",
        "operator",
        "an operator stopped it before anything was judged",
        lambda view: None if view.is_judged else view.is_stopped_by("harness", "run-stopped"),
        is_excused=True,
    ),
    CauseRule(
        "acceptance",
        "operator",
        "an operator stopped it when something was judged",
        lambda view: view.is_stopped_by("harness", "run-stopped"),
    ),
    CauseRule(
        "acceptance",
        "harness",
        "the launch server, the helper, the supervisor of system calls or the gateway was lost",
        lambda view: view.is_stopped_by("harness", *LOSSES),
        is_excused=True,
    ),
    CauseRule(
        "acceptance",
        "harness",
        "another fault of the harness: a candidate can make them",
        lambda view: view.is_stopped_by("harness"),
    ),
    CauseRule(
        "acceptance",
        "machine",
        "a check was kept from the processors, twice, and the reference did not pass beside it either; or a "
        "check did not complete, what it got of the processors was not measured, and the reference did not "
        "complete it either",
        lambda view: () if view.is_of_machine else None,
        is_excused=True,
    ),
    CauseRule("acceptance", "finished", "every check has its outcome", lambda _: ()),
    CauseRule(
        "sealing",
        "harness",
        "the record stops before it is sealed: the harness was killed",
        lambda view: None if view.facts.is_ended else (),
        is_excused=True,
    ),
    CauseRule(
        "sealing",
        "harness",
        "the record is complete and has no seal: it may have been taken away",
        lambda view: None if view.is_sealed else (),
    ),
    CauseRule("sealing", "finished", "the record is sealed", lambda _: ()),
)
"""Of each part the first that holds; the last always does."""
