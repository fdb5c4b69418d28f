"""Absence: why a value is missing survives serialization."""

from __future__ import annotations

import msgspec
import pytest

from repotrial._core.absence import NotComputable, Unknown


@pytest.mark.parametrize("absent", [NotComputable(reason="no runs"), Unknown(reason="not recorded")])
def test_absence_round_trips_with_its_kind(absent: NotComputable | Unknown) -> None:
    data = msgspec.json.encode(absent)
    assert msgspec.json.decode(data, type=int | NotComputable | Unknown) == absent


def test_absence_is_never_mistaken_for_another() -> None:
    assert msgspec.json.encode(Unknown(reason="x")) == b'{"kind":"unknown","reason":"x"}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"kind":"unknown","reason":"x"}', type=NotComputable)


def test_absence_needs_a_reason() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"kind":"unknown"}', type=Unknown)
