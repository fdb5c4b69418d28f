"""Figures that all results are made of: values with intervals, spreads, and what they were computed from."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from repotrial._core.absence import NotComputable

Number: TypeAlias = float | NotComputable


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that figures were computed from (X5)."""

    name: str
    """How figures refer to it."""
    file: str
    """Where it is, from the directory that was analyzed."""
    digest: str
    """Of its bytes; of several files, of the sorted lines `digest  path` of all of them."""
    files: int = 1
    """How many files it has."""


class IntervalFigure(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="figure"):
    """A value with how sure one can be of it."""

    estimate: Number
    """The point estimate."""
    low: Number
    """Lower end of the interval."""
    high: Number
    """Upper end of the interval."""
    standard_error: Number
    """Over tasks (CR2 for rates); not computable where the method has none."""
    method: str
    """How the interval was computed."""
    n_units: int
    """Trials that entered."""
    n_clusters: int
    """Tasks that entered."""


class SpreadFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of single trials: an account, not an estimate."""

    outcome: str
    """Of which trials: all, or those that ended so."""
    trials: int
    """How many have the amount."""
    missing: int
    """How many do not have it."""
    lower_quartile: float
    """A quarter lies below (linear interpolation)."""
    median: float
    """Half lies below."""
    upper_quartile: float
    """Three quarters lie below."""
    maximum: float
    """The largest."""
    total: float
    """Their sum."""


class RepeatFigure(msgspec.Struct, frozen=True, kw_only=True):
    """What k trials of one task give."""

    k: int
    """How many."""
    any: IntervalFigure | NotComputable
    """Chance that at least one succeeds (pass@k), a mean over tasks."""
    all: IntervalFigure | NotComputable
    """Chance that all succeed (pass^k), a mean over tasks."""
