"""The run behind the gateway: admits requests, meters answers, and lets tool calls pass or not.

Every decision is taken from events that are on record by then: results of tools and changes of the workspace
before a request is admitted, the answer and what it asks for before its calls are handed to the agent.
"""

from __future__ import annotations

import asyncio
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial.cost import (
    Budget,
    Charge,
    Estimate,
    Exhausted,
    Reservation,
    Tariff,
    Usage,
    build_charge,
    estimate_request,
    estimate_usage,
)
from repotrial.run._gateway import ExchangeEnd, Refusal, WireRequest
from repotrial.run._watch._dialogue import Dialogue, OpenPrompt
from repotrial.run._watch._inspection import Inspector
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._overseer import Overseer
from repotrial.trace import ByTool, MonitorAlert, Segment, Signal, TraceWriter

__all__ = ["RunExchange", "RunSupervisor"]

_BUDGET_STATUS: Final = 402
_POLICY_STATUS: Final = 403
_CODES: Final = {
    "usd": "cost-cap",
    "units": "cost-cap",
    "tokens": "token-cap",
    "tool-calls": "tool-call-cap",
    "failed-checks": "failed-check-cap",
    "wall-us": "wall-time",
}


class RunSupervisor:
    """Implements the gateway's `Supervisor` for one run."""

    def __init__(
        self,
        *,
        writer: TraceWriter,
        dialogue: Dialogue,
        mutations: MutationLog,
        budget: Budget,
        tariff: Tariff,
        overseer: Overseer,
        inspector: Inspector,
    ) -> None:
        self._writer = writer
        self._dialogue = dialogue
        self._mutations = mutations
        self._budget = budget
        self._tariff = tariff
        self._overseer = overseer
        self._inspector = inspector
        self._order = asyncio.Lock()
        self._room = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        budget.add_listener(self._announce_room)

    async def open(self, request: WireRequest, body: bytes) -> RunExchange | Refusal:
        """Take note of what the request tells, then admit it or say why not."""
        self._loop = asyncio.get_running_loop()
        async with self._order:
            await asyncio.to_thread(self._take_results, request)
        await asyncio.to_thread(self._overseer.settle)
        await asyncio.sleep(self._overseer.take_wait_seconds())
        ended = self._find_end()
        if ended is not None:
            return ended
        if request.is_count_only:
            return await self._admit(request, body, None)
        estimate = estimate_request(
            self._tariff,
            request.model,
            request_bytes=len(body),
            max_output_tokens=request.max_output_tokens,
        )
        if isinstance(estimate, NotComputable):
            return await self._refuse_model(request, estimate)
        reserved = await self._reserve(estimate)
        if isinstance(reserved, Exhausted):
            await asyncio.to_thread(self.exhaust, reserved)
            return Refusal(status=_BUDGET_STATUS, kind="budget", message=reserved.message)
        return await self._admit(request, body, reserved)

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        """Record a request that never became one."""
        text = f"{method} {target} ({len(body)} bytes): {refusal.message}"
        await asyncio.to_thread(self._record_refusal, refusal, text)

    def exhaust(self, exhausted: Exhausted) -> None:
        """A cap is reached: an alert, on which the breakers end the run (B2, P22)."""
        code = _CODES[exhausted.measure]
        signal = Signal(name=f"spent_{exhausted.measure}", value=exhausted.spent, threshold=exhausted.limit)
        alert = MonitorAlert(monitor="budget", rule=code, severity="critical", phase="act", signals=(signal,))
        self._writer.append(alert, actor="monitor")
        self._overseer.settle()

    def exhaust_cap(self) -> None:
        """The same, for whichever cap is reached by now."""
        exhausted = self._budget.find_exhausted()
        if exhausted is not None:
            self.exhaust(exhausted)

    def count_calls(self, number: int) -> None:
        """Tools that the agent was told to use (B2)."""
        exhausted = self._budget.add("tool-calls", number)
        if exhausted is not None:
            self.exhaust(exhausted)

    def price(self, prompt: OpenPrompt, usage: Usage) -> Charge | None:
        charge = build_charge(self._tariff, prompt.model, usage)
        return None if isinstance(charge, NotComputable) else charge

    def inspect(self, prompt: OpenPrompt, end: ExchangeEnd, usage: Usage) -> Refusal | None:
        """Put the answer on record, and look at what it says and asks for before it goes on."""
        answer = end.answer
        assert answer is not None
        place = self._dialogue.close(prompt, end, usage, cost_usd=self._find_dollars(prompt, usage))
        self._inspector.inspect(answer, place)
        self.count_calls(len(answer.calls))
        self._overseer.settle()
        refusal = self._find_end()
        if refusal is None and not self._inspector.prepare(answer, place):
            return Refusal(status=_POLICY_STATUS, kind="policy", message="the run may not write any more")
        return refusal

    def close(self, prompt: OpenPrompt, end: ExchangeEnd, usage: Usage) -> None:
        """Put an answer on record that was never whole."""
        self._dialogue.close(prompt, end, usage, cost_usd=self._find_dollars(prompt, usage))

    def _find_dollars(self, prompt: OpenPrompt, usage: Usage) -> str | None:
        charge = self.price(prompt, usage)
        return charge.cost.value if charge is not None and charge.cost.unit == "usd" else None

    def _take_results(self, request: WireRequest) -> None:
        places = self._dialogue.record_results(request)
        if places:
            cause = ByTool(invocation=places[0]) if len(places) == 1 else None
            self._mutations.record(cause)

    async def _admit(self, request: WireRequest, body: bytes, reservation: Reservation | None) -> RunExchange:
        try:
            async with self._order:
                prompt = await asyncio.to_thread(self._dialogue.open, request)
        except BaseException:
            if reservation is not None:
                reservation.release()
            raise
        return RunExchange(self, prompt, reservation, request_bytes=len(body))

    async def _reserve(self, estimate: Estimate) -> Reservation | Exhausted:
        """Room that exchanges in flight hold is waited for: most of them take less than they may."""
        while True:
            self._room.clear()
            reserved = await asyncio.to_thread(self._budget.reserve, estimate)
            if isinstance(reserved, Reservation) or reserved.is_final:
                return reserved
            await self._room.wait()

    def _announce_room(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._room.set)

    async def _refuse_model(self, request: WireRequest, reason: NotComputable) -> Refusal:
        refusal = Refusal(status=404, kind="unknown-model", message=reason.reason)
        await asyncio.to_thread(self._record_refusal, refusal, f"{request.model}: {reason.reason}")
        return refusal

    def _record_refusal(self, refusal: Refusal, text: str) -> None:
        segment = Segment(
            format="natural-language",
            body=self._writer.body(text.encode("utf-8", "backslashreplace"), of=MonitorAlert),
            event=self._writer.head.count - 1,
        )
        self._writer.append(
            MonitorAlert(
                monitor="gateway", rule=refusal.kind, severity="warning", phase="act", segment=segment
            ),
            actor="monitor",
        )

    def _find_end(self) -> Refusal | None:
        ending = self._overseer.ending
        if ending is None:
            return None
        is_budget = ending.nature == "resource"
        return Refusal(
            status=_BUDGET_STATUS if is_budget else _POLICY_STATUS,
            kind="budget" if is_budget else "ended",
            message=ending.rationale,
        )


class RunExchange:
    """One admitted request; implements the gateway's `Exchange`."""

    def __init__(
        self, run: RunSupervisor, prompt: OpenPrompt, reservation: Reservation | None, *, request_bytes: int
    ) -> None:
        self._run = run
        self._prompt = prompt
        self._reservation = reservation
        self._request_bytes = request_bytes
        self._is_recorded = False
        self._is_cut = False

    def count(self, usage: Usage, sent_bytes: int) -> Refusal | None:
        """Cut a stream that reaches the cap."""
        if self._reservation is None:
            return None
        charge = self._run.price(self._prompt, self._estimate(usage, sent_bytes))
        if charge is None or not self._reservation.count(charge):
            return None
        self._is_cut = True
        return Refusal(status=_BUDGET_STATUS, kind="budget", message="budget reached within an answer")

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        """Everything that depends on the answer happens before the agent has its calls."""
        usage = self._find_usage(end)
        self._is_recorded = True
        return await asyncio.to_thread(self._run.inspect, self._prompt, end, usage)

    async def close(self, end: ExchangeEnd) -> None:
        """Settle, and record what is not recorded yet."""
        usage = self._find_usage(end)
        try:
            if not self._is_recorded:
                await asyncio.to_thread(self._run.close, self._prompt, end, usage)
        finally:
            if self._reservation is not None:
                await asyncio.to_thread(self._settle, end, usage)
        if self._is_cut:
            await asyncio.to_thread(self._run.exhaust_cap)

    def _settle(self, end: ExchangeEnd, usage: Usage) -> None:
        assert self._reservation is not None
        if end.answer is None:  # nobody charges for an error, or for a connection that failed
            self._reservation.release()
        else:
            self._reservation.settle(self._run.price(self._prompt, usage))

    def _find_usage(self, end: ExchangeEnd) -> Usage:
        return Usage() if end.answer is None else self._estimate(end.answer.usage, len(end.body))

    def _estimate(self, usage: Usage | None, sent_bytes: int) -> Usage:
        return estimate_usage(usage, request_bytes=self._request_bytes, response_bytes=sent_bytes)
