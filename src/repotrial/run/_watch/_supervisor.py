"""The run behind the gateway: admits requests, meters answers, and lets tool calls pass or not.

Every decision is taken from events that are on record by then: results of tools and changes of the workspace
before a request is admitted, the answer and what it asks for before its calls are handed to the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

from repotrial._core.absence import NotComputable
from repotrial._core.errors import UsageError
from repotrial.cost import (
    CHARGED_BOUND,
    Amount,
    Charge,
    Exhausted,
    RequestEstimate,
    Reservation,
    RunBudget,
    Tariff,
    TokenUsage,
)
from repotrial.gateway import ExchangeEnd
from repotrial.run._books import alert_exhausted, find_exhausted_code
from repotrial.run._watch._breakers import BreakerExecutor
from repotrial.run._watch._dialogue import Dialogue, OpenPrompt
from repotrial.run._watch._inspection import AnswerInspector, RefusalLog
from repotrial.run._watch._metering import ExchangeMeter
from repotrial.run._watch._mutations import MutationLog
from repotrial.trace import ByTool, MonitorAlert, Signal, TraceWriter
from repotrial.wire import Refusal, WireRequest
from repotrial.witness import Said

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_BUDGET_STATUS: Final = 402
_POLICY_STATUS: Final = 403
_ROOM_SECONDS: Final = 1.0
"""How often a request that waits for room looks again, even if none was announced."""
_PATIENCE_SECONDS: Final = 900.0
"""Longer than any exchange lasts: what holds room for longer belongs to a run that is dead."""
_MOST_COUNTS: Final = 5000
"""Requests for a number of tokens cost nothing, and so nothing else would end them."""
_MOST_COUNT_BYTES: Final = 1024**3


class RunSupervisor:
    """Implements the gateway's `Supervisor` for one run; its books are kept by one thread, in order.

    A block on it ends when everything is in the books. `stop` comes before: no request waits any more.
    """

    def __init__(
        self,
        *,
        writer: TraceWriter,
        dialogue: Dialogue,
        mutations: MutationLog,
        budget: RunBudget,
        tariff: Tariff,
        breakers: BreakerExecutor,
        inspector: AnswerInspector,
    ) -> None:
        self._writer = writer
        self._dialogue = dialogue
        self._mutations = mutations
        self._budget = budget
        self._tariff = tariff
        self._breakers = breakers
        self._inspector = inspector
        self._refusals = RefusalLog(writer)
        self._books_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="repotrial-books")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = asyncio.Event()
        self._is_stopped = False
        self._exhausted: set[str] = set()
        self._counts = self._count_bytes = 0
        self._controls: set[asyncio.Task[None]] = set()
        budget.add_listener(self._announce_room)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._books_thread.shutdown()

    def stop(self) -> None:
        """The run has ended: requests that wait are refused, and so are those that still come."""
        self._is_stopped = True
        self._announce_room()
        for task in tuple(self._controls):
            task.get_loop().call_soon_threadsafe(task.cancel)

    async def do(
        self, work: Callable[Parameters, Value], *args: Parameters.args, **named: Parameters.kwargs
    ) -> Value:
        """Have the books' thread do something; once begun it is done, even if the caller is canceled."""
        done = asyncio.get_running_loop().run_in_executor(self._books_thread, partial(work, *args, **named))
        return await asyncio.shield(done)

    async def open(self, request: WireRequest, body: bytes) -> RunExchange | Refusal:
        """Take note of what the request tells, then admit it or say why not."""
        self._loop = asyncio.get_running_loop()
        await self.do(self._take_results, request)
        await self.do(self._breakers.settle)
        await self._hold_back()
        found = (
            self._find_end()
            or await self.do(self._inspector.hosted.check_request, request)
            or await self._find_reservation(request, body)
        )
        if isinstance(found, Refusal):
            await self.do(self._refusals.record, found, request.model)
            return found
        return await self._admit(request, body, found)

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        """Record a request that never became one."""
        await self.do(self._refusals.record, refusal, f"{method} {target} ({len(body)} bytes)")

    def exhaust(self, exhausted: Exhausted) -> None:
        """A cap is reached: an alert, on which the breakers end the run (B2, P22)."""
        code = find_exhausted_code(exhausted)
        if code not in self._exhausted:
            self._exhausted.add(code)
            alert_exhausted(self._writer, exhausted, "act")
        self._breakers.settle()

    def end_unpaid(self, exhausted: Exhausted) -> None:
        """The same, for time that cannot be paid any more; from any thread."""
        with contextlib.suppress(RuntimeError):  # the books are closed: the agent has ended by itself
            self._books_thread.submit(self.exhaust, exhausted)

    def exhaust_cap(self) -> None:
        """The same, for whichever cap is reached by now."""
        exhausted = self._budget.find_exhausted()
        if exhausted is not None:
            self.exhaust(exhausted)

    def price(self, prompt: OpenPrompt, usage: TokenUsage) -> Charge | None:
        charge = self._tariff.build_charge(prompt.model, usage)
        return None if isinstance(charge, NotComputable) else charge

    def record(self, prompt: OpenPrompt, end: ExchangeEnd, usage: TokenUsage) -> int | None:
        """Put an answer on record; its place, or None if the byte budget dropped it."""
        charge = self.price(prompt, usage)
        dollars = charge.cost.value if charge is not None and charge.cost.unit == "usd" else None
        return self._dialogue.close(prompt, end, usage, cost_usd=dollars)

    def inspect(self, prompt: OpenPrompt, end: ExchangeEnd, place: int | None) -> Refusal | None:
        """Look at what a recorded answer says and asks for, before it goes on."""
        answer = end.answer
        assert answer is not None
        said = Said(end.body, prompt.last_message, prompt.seq)
        self._inspector.inspect(answer, place, said)
        hosted = self._inspector.hosted.check_answer(answer, place)
        exhausted = self._budget.add("tool-calls", len(answer.calls) + len(answer.hosted))
        if exhausted is not None:
            self.exhaust(exhausted)
        self._breakers.settle()
        refusal = self._find_end() or hosted
        if refusal is None and not self._inspector.prepare(answer, place, has_tools=bool(prompt.tools)):
            return Refusal(status=_POLICY_STATUS, kind="policy", message="the run may not write any more")
        return refusal

    def note(self, request: WireRequest, end: ExchangeEnd, place: int | None) -> None:
        """Record how the upstream did."""
        if end.is_sent:
            self._inspector.provider.note(request, end, place)

    def note_bound(self, amount: Amount | None, place: int | None) -> None:
        """Record what an exchange was charged that no report says: statements count it from there (B1)."""
        if amount is None:
            return
        alert = MonitorAlert(
            monitor="budget",
            rule=CHARGED_BOUND,
            severity="info",
            phase="act",
            signals=(Signal(name=f"cost_{amount.unit}", value=amount.value),),
            evidence=() if place is None else (place,),
        )
        self._writer.alert(alert)

    def start_control(self) -> None:
        """Where the upstream is in trouble, ask it ourselves: what comes of it is evidence."""
        provider = self._inspector.provider
        task = provider.start(lambda result: self._books_thread.submit(provider.note_control, result))
        if task is not None:
            self._controls.add(task)
            task.add_done_callback(self._controls.discard)

    async def conclude_controls(self) -> None:
        """Wait for requests of our own, and make the last that is due."""
        self.start_control()
        if self._controls:
            await asyncio.wait(self._controls)

    def withhold(self, prompt: OpenPrompt, end: ExchangeEnd, place: int | None) -> None:
        """Say that the agent did not get an answer that is on record."""
        self._dialogue.withhold(prompt)
        self._refusals.record_withheld(end, place)

    def _take_results(self, request: WireRequest) -> None:
        places = self._dialogue.record_results(request)
        if places:
            cause = ByTool(invocation=places[0]) if len(places) == 1 else None
            self._mutations.record(cause)

    async def _hold_back(self) -> None:
        """Let every request wait that comes too soon (P24)."""
        provider = self._inspector.provider
        while self._find_end() is None:
            pace = provider.find_wait_seconds()
            seconds = max(pace, self._breakers.find_wait_seconds())
            if seconds <= 0:
                provider.admit()
                return
            if pace > 0:
                await self.do(provider.note_throttled)
            await _wait(self._room, min(seconds, _ROOM_SECONDS))

    async def _find_reservation(self, request: WireRequest, body: bytes) -> Reservation | Refusal | None:
        """Room for the request; None if it needs none."""
        if request.is_count_only:
            self._counts += 1
            self._count_bytes += len(body)
            text = "expected fewer requests for a number of tokens, found more than a run needs"
            is_flood = self._counts > _MOST_COUNTS or self._count_bytes > _MOST_COUNT_BYTES
            return Refusal(status=_POLICY_STATUS, kind="policy", message=text) if is_flood else None
        bound, answers = request.max_output_tokens, max(1, request.answers)
        estimate = self._tariff.estimate_request(
            request.model,
            request_bytes=len(body),
            max_output_tokens=None if bound is None else -(-bound // answers),
            answers=answers,
        )
        if isinstance(estimate, NotComputable):
            return Refusal(status=404, kind="unknown-model", message=estimate.reason)
        reserved = await self._reserve(estimate)
        if isinstance(reserved, Exhausted):
            await self.do(self.exhaust, reserved)
            return Refusal(status=_BUDGET_STATUS, kind="budget", message=reserved.message)
        return reserved

    async def _reserve(self, estimate: RequestEstimate) -> Reservation | Exhausted | Refusal:
        """Room that exchanges in flight hold is waited for: most of them take less than they may."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            room = self._room  # before we ask: what is announced meanwhile is not missed
            reserved = await self._ask_budget(estimate)
            if isinstance(reserved, Reservation) or reserved.is_final or time.monotonic() > deadline:
                return reserved
            if reserved.is_run_cap:
                await _wait(room, _ROOM_SECONDS)
            else:  # other runs hold it, perhaps of other processes: they announce nothing here
                await asyncio.sleep(_ROOM_SECONDS)
            ended = self._find_end()
            if ended is not None:
                return ended

    async def _ask_budget(self, estimate: RequestEstimate) -> Reservation | Exhausted:
        asked = asyncio.ensure_future(self.do(self._budget.reserve, estimate))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(self._give_back)
            raise

    async def _admit(
        self, request: WireRequest, body: bytes, reservation: Reservation | None
    ) -> RunExchange | Refusal:
        try:
            prompt = await self.do(self._dialogue.open, request)
        except BaseException as error:
            if reservation is not None:
                self._books_thread.submit(
                    reservation.release
                )  # may wait for the disk, which the loop must not
            if not isinstance(error, UsageError):
                raise
            # What cannot be put on record does not go out.
            refusal = Refusal(status=400, kind="malformed", message=f"cannot be recorded: {error.code}")
            await self.do(self._refusals.record, refusal, request.model)
            return refusal
        return RunExchange(self, prompt, reservation, request=request, request_bytes=len(body))

    def _give_back(self, asked: asyncio.Future[Reservation | Exhausted]) -> None:
        if not asked.cancelled() and asked.exception() is None:
            reserved = asked.result()
            if isinstance(reserved, Reservation):
                self._books_thread.submit(reserved.release)

    def _announce_room(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._room.set()
        self._room = asyncio.Event()

    def _find_end(self) -> Refusal | None:
        ending = self._breakers.ending
        if ending is not None:
            is_budget = ending.nature == "resource"
            return Refusal(
                status=_BUDGET_STATUS if is_budget else _POLICY_STATUS,
                kind="budget" if is_budget else "ended",
                message=ending.rationale,
            )
        if self._is_stopped:
            return Refusal(status=_POLICY_STATUS, kind="ended", message="the run has ended")
        return None


class RunExchange:
    """One admitted request; implements the gateway's `Exchange`."""

    def __init__(
        self,
        run: RunSupervisor,
        prompt: OpenPrompt,
        reservation: Reservation | None,
        *,
        request: WireRequest,
        request_bytes: int,
    ) -> None:
        self._run = run
        self._prompt = prompt
        self._reservation = reservation
        self._request = request
        self._meter = ExchangeMeter(request_bytes=request_bytes, is_streamed=request.is_streamed)
        self._is_recorded = False
        self._is_cut = False
        self._place: int | None = None

    def count(self, usage: TokenUsage, sent_bytes: int) -> Refusal | None:
        """Cut a stream that reaches the cap."""
        if self._reservation is None:
            return None
        charge = self._run.price(self._prompt, self._meter.estimate(usage, sent_bytes))
        if charge is None or not self._reservation.count(charge):
            return None
        self._is_cut = True
        return Refusal(status=_BUDGET_STATUS, kind="budget", message="budget reached within an answer")

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        """Everything that depends on the answer happens before the agent has its calls."""
        return await self._run.do(self._inspect, end)

    async def close(self, end: ExchangeEnd) -> None:
        """Settle, and record what is not recorded yet."""
        await self._run.do(self._conclude, end)
        self._run.start_control()

    def _inspect(self, end: ExchangeEnd) -> Refusal | None:
        self._place = self._run.record(self._prompt, end, self._find_usage(end))
        self._is_recorded = True
        return self._run.inspect(self._prompt, end, self._place)

    def _conclude(self, end: ExchangeEnd) -> None:
        try:
            if not self._is_recorded:
                self._place = self._run.record(self._prompt, end, self._find_usage(end))
            elif end.cause != "complete":
                self._run.withhold(self._prompt, end, self._place)
            self._run.note(self._request, end, self._place)
        finally:
            if self._reservation is not None:
                self._run.note_bound(self._settle(self._reservation, end), self._place)
        if self._is_cut:
            self._run.exhaust_cap()

    def _settle(self, reservation: Reservation, end: ExchangeEnd) -> Amount | None:
        """What is charged without a report, if anything is."""
        if end.answer is not None:
            return reservation.settle(self._run.price(self._prompt, self._find_usage(end)))
        if end.is_sent and end.cause in {"cut", "agent-left"}:
            return reservation.settle(None)  # a broken-off answer is charged all the same
        return reservation.release()  # an error, or an answer that never began, is not charged

    def _find_usage(self, end: ExchangeEnd) -> TokenUsage:
        return TokenUsage() if self._reservation is None else self._meter.read(end)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
