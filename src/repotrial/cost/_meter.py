"""What the events of a run say was consumed: the one fold that statements and ledgers are made from (B1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from repotrial.cost._amount import Amount, MoneyUnit
from repotrial.cost._statement import Metered, MeteredExchange
from repotrial.cost._tariff import TokenUsage
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    Event,
    MonitorAlert,
    PatchApplication,
    Prompt,
    Response,
    ResponseUsage,
    RunPaths,
    StaticCheck,
    Termination,
    ToolInvocation,
    iter_events,
    iter_sealable_entries,
)

CHARGED_BOUND: Final = "charged-bound"
"""The rule of the remark that an exchange was charged its declared bound, or what was counted of it."""
_COST_SIGNALS: Final[dict[str, MoneyUnit]] = {"cost_usd": "usd", "cost_units": "units"}

_PROGRAM_START = "execve"
_PERSON = "human"
_OVERSPEND = "_overspend"


class RunMeter:
    """Adds up what events say was consumed."""

    def __init__(self) -> None:
        self._models: dict[int, str] = {}
        self._first_us: int | None = None
        self._last_us = 0
        self._exec_us = 0
        self._human_us = 0
        self._tool_calls = 0
        self._bounds: list[Amount] = []
        self._exchanges: dict[int, MeteredExchange] = {}
        self.overspend: dict[str, str | int] = {}
        """By how much each cap was passed while the agent worked."""

    @classmethod
    def read(cls, paths: RunPaths) -> RunMeter:
        """The meter of a recorded run.

        Raises:
            EvidenceError: the trace cannot be read.
        """
        meter = cls()
        for event in iter_events(paths.trace, allow_torn_tail=True):
            meter.take(event)
        return meter

    def take(self, event: Event) -> None:
        """Add what one event tells."""
        self._first_us = event.t if self._first_us is None else self._first_us
        self._last_us = event.t
        match event.payload:
            case Prompt(model=model):
                self._models[event.seq] = model
            case Response() as response:
                self._take_response(event.seq, response)
            case ToolInvocation(source="gateway"):
                self._tool_calls += 1
            case ToolInvocation(tool=tool, wall_us=wall_us) if tool == _PERSON:
                self._human_us += wall_us
            case ToolInvocation(tool=tool, wall_us=wall_us) if tool != _PROGRAM_START:
                self._exec_us += wall_us
            case MonitorAlert(rule=rule) as alert if rule == CHARGED_BOUND:
                self._take_bound(alert)
            case Termination(signals=signals):
                self.overspend = {
                    signal.name.removesuffix(_OVERSPEND): signal.value
                    for signal in signals
                    if signal.name.endswith(_OVERSPEND)
                }
            case PatchApplication() | BuildCheck() | StaticCheck() | AcceptanceExecution() as execution:
                self._exec_us += max(0, execution.ended_at_us - execution.started_at_us)
            case _:
                pass

    def build(self, *, stored_bytes: int) -> Metered:
        """What was consumed; time that is neither execution nor a person's is overhead, Setup included."""
        whole_us = 0 if self._first_us is None else self._last_us - self._first_us
        return Metered(
            exchanges=tuple(self._exchanges.values()),
            exec_wall_us=self._exec_us,
            tool_calls=self._tool_calls,
            human_us=self._human_us,
            overhead_wall_us=max(0, whole_us - self._exec_us - self._human_us),
            stored_bytes=stored_bytes,
            bounds=tuple(self._bounds),
        )

    def _take_bound(self, alert: MonitorAlert) -> None:
        for place in alert.evidence:  # what is charged by its bound is not charged by what was read of it
            self._exchanges.pop(place, None)
        for signal in alert.signals:
            unit = _COST_SIGNALS.get(signal.name)
            if unit is not None:
                self._bounds.append(Amount.build(Decimal(signal.value), unit, basis="bound"))

    def _take_response(self, seq: int, response: Response) -> None:
        if response.usage == ResponseUsage():
            return  # nothing of it tells: it was not charged, or a remark has its bound
        model = (
            response.model if response.prompt is None else self._models.get(response.prompt, response.model)
        )
        self._exchanges[seq] = MeteredExchange(model=model, usage=_read_usage(response.usage))


def measure_stored(paths: RunPaths) -> int:
    """Bytes of what a seal covers: what is computed from the record later costs nothing more.

    Raises:
        TRACE_UNREADABLE: a folder cannot be listed.
    """
    return sum(entry.path.lstat().st_size for entry in iter_sealable_entries(paths))


def _read_usage(usage: ResponseUsage) -> TokenUsage:
    return TokenUsage(
        input_uncached=usage.input_uncached_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write_5m=usage.cache_write_5m_tokens,
        cache_write_1h=usage.cache_write_1h_tokens,
        output=usage.output_tokens,
        reasoning=usage.reasoning_tokens,
        request_input=usage.request_input_tokens,
        basis=usage.basis or "estimated",
    )
