"""Absence has a type: a value that is not there says why, and is never 0, -1, NaN or a bare None."""

from __future__ import annotations

from typing import Annotated

import msgspec


class _Absence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    """Why, in a sentence that can be printed beside the name of the value."""


class NotComputable(_Absence, frozen=True, tag="not-computable"):
    """A derived value whose inputs do not determine it."""


class Unknown(_Absence, frozen=True, tag="unknown"):
    """An observed value that was not observed."""
