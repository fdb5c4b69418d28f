"""The entries of a ledger, and what they add up to."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

import msgspec

from repotrial._core.canonical import Count, decimal_text
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cost._amount import Amount, AmountText, MoneyUnit, add_exactly
from repotrial.cost._ledger_file import LEDGER_BROKEN, LedgerHead, TornTail

SettleCause: TypeAlias = Literal["settled", "run-ended", "holder-died"]
"""What was spent was known; or the run ended, or its harness died, without settling: all it held counts."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    at_us: Count
    """When, in microseconds since the epoch."""


class LedgerOpened(_Entry, frozen=True, kw_only=True, tag="ledger-opened"):
    """The first entry."""

    ledger_id: str
    """Random: no two ledgers begin alike."""
    schema: Literal["repotrial/ledger@1"] = "repotrial/ledger@1"
    """The format."""


class EnvelopeOpened(_Entry, frozen=True, kw_only=True, tag="envelope-opened"):
    """An envelope and its limit, for good."""

    name: str
    """`total`, `task/…`, `run/…`."""
    limit: AmountText
    """The most that may be spent from it."""
    unit: MoneyUnit
    """Of the limit."""


class Reserved(_Entry, frozen=True, kw_only=True, tag="reserved"):
    """An amount is held in some envelopes; the entry's number names the hold."""

    run: str
    """For whom."""
    envelopes: tuple[str, ...]
    """From which."""
    amount: AmountText
    """How much."""
    unit: MoneyUnit
    """Of the amount."""
    holder: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$(?!\n)")]
    """Which open ledger: while its process lives, it keeps a lock beside the ledger under this name."""


class Settled(_Entry, frozen=True, kw_only=True, tag="settled"):
    """A hold is replaced by what was spent."""

    hold: Count
    """The number of the reservation's entry."""
    actual: Amount
    """What was spent, and how that is known."""
    cause: SettleCause
    """Why the hold ended."""


class Released(_Entry, frozen=True, kw_only=True, tag="released"):
    """A hold is given back: nothing was spent."""

    hold: Count
    """The number of the reservation's entry."""


class TailDropped(_Entry, frozen=True, kw_only=True, tag="tail-dropped"):
    """An unfinished line stood at the end; its write was never acknowledged."""

    length_bytes: Count
    """How long it was."""
    digest: Digest
    """Of its bytes."""


LedgerEntry: TypeAlias = LedgerOpened | EnvelopeOpened | Reserved | Settled | Released | TailDropped
"""One line."""


_ZERO = Decimal(0)


LEDGER_HOLD_CLOSED = ErrorCode(
    "ledger-hold-closed",
    UsageError,
    "A hold of the ledger was settled or released before, perhaps because its run was taken for ended.",
    hint="conclude only runs that have ended; start a retry as a new run",
)


class EnvelopeAccount:
    """One envelope while entries are applied."""

    def __init__(self, limit: Decimal, unit: MoneyUnit) -> None:
        self.limit = limit
        self.unit = unit
        self.spent = self.held = self.assumed = _ZERO

    @property
    def is_passed(self) -> bool:
        """Whether more is spent and held than there is."""
        return add_exactly(self.spent, self.held) > self.limit


class EnvelopeState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One envelope, for a report."""

    name: str
    """`total`, `task/…`, `run/…`."""
    unit: MoneyUnit
    """Of all amounts here."""
    limit: AmountText
    """The most that may be spent."""
    spent: AmountText
    """What is settled."""
    held: AmountText
    """What is reserved."""
    assumed: AmountText
    """The part of `spent` that was not reported: held by a run or a harness that ended without settling."""
    overspend: AmountText
    """By how much settlements passed the limit: exchanges broke their own declared bounds."""

    @classmethod
    def build(cls, name: str, envelope: EnvelopeAccount) -> Self:
        """As it stands."""
        return cls(
            name=name,
            unit=envelope.unit,
            limit=decimal_text(envelope.limit),
            spent=decimal_text(envelope.spent),
            held=decimal_text(envelope.held),
            assumed=decimal_text(envelope.assumed),
            overspend=decimal_text(max(_ZERO, add_exactly(envelope.spent, -envelope.limit))),
        )


class LedgerState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All envelopes, for a report."""

    head: LedgerHead
    """Where the ledger ends."""
    ledger_id: str
    """Which ledger."""
    envelopes: tuple[EnvelopeState, ...]
    """By name."""
    open_runs: tuple[str, ...]
    """Runs that hold something: at work, or dead and to be concluded."""
    torn: TornTail | None
    """An unfinished line at the end; the next entry takes its place and says so."""


class Books:
    """Applies entries in order; an entry that contradicts those before it is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(LedgerEntry)
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.ledger_id = ""
        self.envelopes: dict[str, EnvelopeAccount] = {}
        self.holds: dict[int, Reserved] = {}

    def build_state(self, *, head: LedgerHead, torn: TornTail | None) -> LedgerState:
        """As it stands.

        Raises:
            LEDGER_BROKEN: there is not even an opening entry.
        """
        if not self.ledger_id:
            raise LEDGER_BROKEN.error(f"{self._path}: entry 0: expected the opening entry, found none")
        envelopes = sorted(self.envelopes.items())
        return LedgerState(
            head=head,
            ledger_id=self.ledger_id,
            envelopes=tuple(EnvelopeState.build(name, envelope) for name, envelope in envelopes),
            open_runs=tuple(sorted({hold.run for hold in self.holds.values()})),
            torn=torn,
        )

    def get_hold(self, number: int) -> Reserved:
        """An open hold.

        Raises:
            LEDGER_HOLD_CLOSED: it is not open.
        """
        if (hold := self.holds.get(number)) is None:
            raise LEDGER_HOLD_CLOSED.error(
                f"expected an open hold, found {number}, which is closed or was never"
            )
        return hold

    def apply(self, number: int, body: bytes) -> None:
        """Take one entry.

        Raises:
            LEDGER_BROKEN: it is none of ours, or contradicts the ones before it.
        """
        try:
            self._take(number, self._decoder.decode(body))
        except (KeyError, ValueError, UsageError) as error:
            raise LEDGER_BROKEN.error(f"{self._path}: entry {number}: {error}") from error

    def _take(self, number: int, entry: LedgerEntry) -> None:
        if isinstance(entry, LedgerOpened) != (number == 0):
            raise ValueError("expected the opening entry first, and only there")
        match entry:
            case LedgerOpened():
                self.ledger_id = entry.ledger_id
            case EnvelopeOpened():
                if entry.name in self.envelopes:
                    raise ValueError(f"expected one opening of {entry.name!r}, found another")
                self.envelopes[entry.name] = EnvelopeAccount(Decimal(entry.limit), entry.unit)
            case Reserved():
                self._move(entry, held=Decimal(entry.amount))
                self.holds[number] = entry
                if any(self.envelopes[name].is_passed for name in entry.envelopes):
                    raise ValueError(
                        "expected a reservation that fits, found one that no rule of ours allows"
                    )
            case Settled():
                hold = self.get_hold(entry.hold)
                spent = entry.actual.decimal
                assumed = _ZERO if entry.cause == "settled" else spent
                self._move(hold, held=-Decimal(hold.amount), spent=spent, assumed=assumed)
                del self.holds[entry.hold]
            case Released():
                hold = self.get_hold(entry.hold)
                self._move(hold, held=-Decimal(hold.amount))
                del self.holds[entry.hold]
            case TailDropped():
                pass

    def _move(
        self, entry: Reserved, *, held: Decimal, spent: Decimal = _ZERO, assumed: Decimal = _ZERO
    ) -> None:
        envelopes = [self.envelopes[name] for name in entry.envelopes]
        if any(envelope.unit != entry.unit for envelope in envelopes):
            raise ValueError(f"expected envelopes in {entry.unit}")
        for envelope in envelopes:
            envelope.held = add_exactly(envelope.held, held)
            envelope.spent = add_exactly(envelope.spent, spent)
            envelope.assumed = add_exactly(envelope.assumed, assumed)
