"""The ledger: envelopes that concurrent runs share and that survive a restart (B4, ADR 0010)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from repotrial._core.canonical import decimal_text, dump_checked
from repotrial._core.clock import Clock, SystemClock
from repotrial._core.closing import Closing
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cost._amount import MIXED_UNITS, Amount, add_exactly
from repotrial.cost._caps import Exhausted
from repotrial.cost._ledger_file import LedgerFile, LedgerHead, LedgerHolder, forget_holder, is_holder_alive
from repotrial.cost._ledger_state import (
    Books,
    EnvelopeOpened,
    LedgerOpened,
    LedgerState,
    Released,
    Reserved,
    SettleCause,
    Settled,
    TailDropped,
)

ENVELOPE_CONFLICT = ErrorCode(
    "envelope-conflict",
    UsageError,
    "An envelope was opened before with another limit: limits are fixed before the first run.",
    hint="use the limit that the ledger has, or start a new ledger for a new study",
)
ENVELOPE_UNKNOWN = ErrorCode(
    "envelope-unknown",
    UsageError,
    "A run draws on an envelope that the ledger does not have.",
    hint="open the envelope before runs draw on it",
)


class Ledger(Closing):
    """An append-only file of reservations and settlements; threads and processes may share it."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Open a ledger and verify all of it; one that does not exist is created.

        Raises:
            LEDGER_BROKEN: it does not hold.
            LEDGER_UNUSABLE: the machine does not let us.
        """
        self._now_us = (clock or SystemClock()).now_us
        self._books = Books(path)
        self._file = LedgerFile(path, self._books)
        self._path = path
        self._holder = LedgerHolder(path)
        try:
            with self._file.open_transaction():
                if not self._file.head.count:
                    self._append(LedgerOpened(at_us=self._now_us(), ledger_id=uuid.uuid4().hex))
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; reservations stay, without a holder."""
        self._holder.leave()
        self._file.close()

    def open_envelope(self, name: str, limit: Amount) -> None:
        """Declare an envelope; the same declaration again changes nothing.

        Raises:
            ENVELOPE_CONFLICT: it has another limit.
        """
        with self._file.open_transaction():
            found = self._books.envelopes.get(name)
            if found is None:
                entry = EnvelopeOpened(at_us=self._now_us(), name=name, limit=limit.value, unit=limit.unit)
                self._append(entry)
            elif (found.limit, found.unit) != (limit.decimal, limit.unit):
                known = f"{decimal_text(found.limit)} {found.unit}"
                raise ENVELOPE_CONFLICT.error(
                    f"{name}: expected the limit {known}, found {limit.value} {limit.unit}"
                )

    def reserve(self, amount: Amount, *, run: str, envelopes: Sequence[str]) -> LedgerHold | Exhausted:
        """Hold an amount in every envelope named, or in none.

        What dead processes hold is never released: it is settled before a caller waits for it.

        Raises:
            ENVELOPE_UNKNOWN: there is no such envelope.
            MIXED_UNITS: an envelope is in another unit.
        """
        with self._file.open_transaction():
            refusal = self._find_refusal(envelopes, amount)
            if refusal is not None and not refusal.is_final and self._conclude_dead():
                refusal = self._find_refusal(envelopes, amount)
            if refusal is not None:
                return refusal
            with self._file.explaining():
                self._holder.appear()
            entry = Reserved(
                at_us=self._now_us(),
                run=run,
                envelopes=tuple(envelopes),
                amount=amount.value,
                unit=amount.unit,
                holder=self._holder.id,
            )
            return LedgerHold(self, self._append(entry))

    def book(self, amount: Amount, *, run: str, envelopes: Sequence[str]) -> None:
        """Record what is spent already, such as people's time: no envelope can refuse it any more.

        Raises:
            ENVELOPE_UNKNOWN: there is no such envelope.
            MIXED_UNITS: an envelope is in another unit.
        """
        nothing = Amount.build(Decimal(0), amount.unit, basis="bound")
        with self._file.open_transaction():
            self._find_refusal(envelopes, nothing)
            entry = Reserved(
                at_us=self._now_us(),
                run=run,
                envelopes=tuple(envelopes),
                amount=nothing.value,
                unit=amount.unit,
                holder=self._holder.id,
            )
            self._settle(self._append(entry), amount, "settled")

    def settle(self, hold: int, actual: Amount, *, cause: SettleCause = "settled") -> None:
        """Replace a hold by what was spent.

        Raises:
            LEDGER_HOLD_CLOSED: it is settled or released.
            MIXED_UNITS: it is in another unit.
        """
        with self._file.open_transaction():
            self._settle(hold, actual, cause)

    def release(self, hold: int) -> None:
        """Give a hold back: nothing was spent.

        Raises:
            LEDGER_HOLD_CLOSED: it is settled or released.
        """
        with self._file.open_transaction():
            self._books.get_hold(hold)
            self._append(Released(at_us=self._now_us(), hold=hold))

    def conclude_run(self, run: str) -> tuple[Amount, ...]:
        """Settle what a run that is known to have ended still holds, each hold in full.

        What another process holds for a run of the same name is its own, as long as it lives. Whether the
        provider charged for an exchange that was in flight cannot be known any more, so nothing of it is
        given back.

        Returns:
            What was settled this way; empty if the run had closed its books.
        """
        with self._file.open_transaction():
            holds = {
                hold: entry
                for hold, entry in self._books.holds.items()
                if entry.run == run and not self._is_anothers(entry.holder)
            }
            return self._assume_spent(holds, "run-ended")

    def _is_anothers(self, holder: str) -> bool:
        return holder != self._holder.id and is_holder_alive(self._path, holder)

    def conclude_dead(self) -> tuple[Amount, ...]:
        """The same for what processes hold that do not live any more: killed, or cut off from power.

        Returns:
            What was settled this way.
        """
        with self._file.open_transaction():
            return self._conclude_dead()

    def read(self) -> LedgerState:
        """The state of all envelopes, with what other processes have appended."""
        with self._file.open_transaction():
            return self._books.build_state(head=self._file.head, torn=self._file.torn)

    def verify(self, head: LedgerHead | None = None) -> None:
        """Read the whole file again.

        Args:
            head: An earlier end that was kept elsewhere: the file must still have it.

        Raises:
            LEDGER_BROKEN: the file does not hold, or does not go on from `head`.
        """
        with self._file.open_transaction():
            self._file.verify_head(head or self._file.head)

    def _conclude_dead(self) -> tuple[Amount, ...]:
        holders = {entry.holder for entry in self._books.holds.values()}
        with self._file.explaining():
            dead = {each for each in holders if not is_holder_alive(self._path, each)}
        holds = {hold: entry for hold, entry in self._books.holds.items() if entry.holder in dead}
        concluded = self._assume_spent(holds, "holder-died")
        for holder in dead:
            forget_holder(self._path, holder)
        return concluded

    def _assume_spent(self, holds: Mapping[int, Reserved], cause: SettleCause) -> tuple[Amount, ...]:
        concluded = []
        for hold, entry in sorted(holds.items()):
            actual = Amount.build(Decimal(entry.amount), entry.unit, basis="bound")
            self._settle(hold, actual, cause)
            concluded.append(actual)
        return tuple(concluded)

    def _find_refusal(self, envelopes: Sequence[str], amount: Amount) -> Exhausted | None:
        refusals = (self._refuse(name, amount) for name in envelopes)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _refuse(self, name: str, amount: Amount) -> Exhausted | None:
        found = self._books.envelopes.get(name)
        if found is None:
            raise ENVELOPE_UNKNOWN.error(f"expected an envelope of the ledger, found {name!r}")
        if found.unit != amount.unit:
            raise MIXED_UNITS.error(f"{name}: expected an amount in {found.unit}, found one in {amount.unit}")
        if add_exactly(found.spent, found.held, amount.decimal) <= found.limit:
            return None
        return Exhausted(
            scope=name,
            measure=found.unit,
            limit=decimal_text(found.limit),
            spent=decimal_text(found.spent),
            reserved=decimal_text(found.held),
            needed=amount.value,
            is_final=add_exactly(found.spent, amount.decimal) > found.limit,
        )

    def _settle(self, hold: int, actual: Amount, cause: SettleCause) -> None:
        entry = self._books.get_hold(hold)
        if entry.unit != actual.unit:
            raise MIXED_UNITS.error(f"expected an amount in {entry.unit}, found one in {actual.unit}")
        self._append(Settled(at_us=self._now_us(), hold=hold, actual=actual, cause=cause))

    def _append(self, entry: msgspec.Struct) -> int:
        if (torn := self._file.torn) is not None:
            dropped = TailDropped(at_us=self._now_us(), length_bytes=torn.length_bytes, digest=torn.digest)
            self._file.append(dump_checked(msgspec.to_builtins(dropped)))
        return self._file.append(dump_checked(msgspec.to_builtins(entry)))

    def open_envelopes(self, limits: EnvelopeLimits, *, run: str, task: str) -> Envelopes:
        """Declare the envelopes of a run: its own, its task's and the total.

        Raises:
            ENVELOPE_CONFLICT: one of them has another limit.
        """
        named = {f"run/{run}": limits.run, f"task/{task}": limits.task, "total": limits.total}
        declared = {name: limit for name, limit in named.items() if limit is not None}
        for name, limit in declared.items():
            self.open_envelope(name, limit)
        return Envelopes(self, run=run, names=tuple(declared))


class LedgerHold:
    """A reservation in the ledger."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        """Use `Ledger.reserve`."""
        self.number = number
        self._ledger = ledger

    def settle(self, actual: Amount) -> None:
        """Replace it by what was spent."""
        self._ledger.settle(self.number, actual)

    def release(self) -> None:
        """Give it back: nothing was spent."""
        self._ledger.release(self.number)


class EnvelopeLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """B_run, B_task and B_total (B4); None is no limit."""

    run: Amount | None = None
    """For one run."""
    task: Amount | None = None
    """For all runs of one contract."""
    total: Amount | None = None
    """For all runs."""


class Envelopes:
    """The envelopes of one run: the parent of its budget."""

    def __init__(self, ledger: Ledger, *, run: str, names: tuple[str, ...]) -> None:
        """Use `Ledger.bind`."""
        self._ledger = ledger
        self._run = run
        self._names = names

    def reserve(self, amount: Amount) -> LedgerHold | Exhausted:
        """Hold an amount in all of them, or in none."""
        return self._ledger.reserve(amount, run=self._run, envelopes=self._names)

    def book(self, amount: Amount) -> None:
        """Record what is spent already in all of them."""
        self._ledger.book(amount, run=self._run, envelopes=self._names)


def load_ledger_state(path: Path, *, head: LedgerHead | None = None) -> LedgerState:
    """Verify a ledger that will not be written, on any machine.

    Args:
        path: The file.
        head: An earlier end that was kept elsewhere: the file must still have it.

    Raises:
        LEDGER_BROKEN: it does not hold, or does not go on from `head`.
        LEDGER_UNUSABLE: it cannot be read.
    """
    books = Books(path)
    file = LedgerFile(path, books, is_writable=False)
    try:
        with file.open_transaction():
            file.verify_head(head or file.head)
            return books.build_state(head=file.head, torn=file.torn)
    finally:
        file.close()
