"""Places in a text, as characters and as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repotrial.policy._text import Offsets

_TEXTS = st.lists(st.sampled_from(["a" * 500, "\u00fc" * 500, "\u6f22", "\U0001f600", "\ud800", "\n"])).map(
    "".join
)


@given(_TEXTS, st.integers(min_value=0))
def test_places_lead_there_and_back(text: str, number: int) -> None:
    place = number % (len(text) + 1)
    offsets = Offsets(text)
    assert offsets.to_bytes(place) == len(text[:place].encode("utf-8", "surrogatepass"))
    assert offsets.to_characters(offsets.to_bytes(place)) == place
