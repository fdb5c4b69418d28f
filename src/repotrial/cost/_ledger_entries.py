"""What a ledger's lines say."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.cost._amount import Amount, AmountText, MoneyUnit

SettleCause: TypeAlias = Literal["settled", "run-ended", "holder-died"]
"""What was spent was known; or the run ended, or its harness died, without a word: all it held counts."""


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
    """An unfinished line stood at the end; nobody was told that it had been written."""

    length_bytes: Count
    """How long it was."""
    digest: Digest
    """Of its bytes."""


LedgerEntry: TypeAlias = LedgerOpened | EnvelopeOpened | Reserved | Settled | Released | TailDropped
"""One line."""
