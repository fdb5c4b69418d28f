from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.retrieval import CUTOFFS, MEASURES, measure_lists, rank

_FILES = st.lists(st.sampled_from([f"f{n}" for n in range(30)]), unique=True, max_size=25)


@given(st.lists(st.tuples(_FILES, _FILES.filter(bool)), max_size=8))
def test_many_lists_at_once_have_the_measures_of_each(lists: list[tuple[list[str], list[str]]]) -> None:
    found = measure_lists(lists)
    for place, (retrieved, relevant) in enumerate(lists):
        ranking = rank(retrieved, set(relevant))
        for measure in MEASURES.values():
            for cutoff in CUTOFFS if measure.has_cutoff else (0,):
                name = f"{measure.name}@{cutoff}" if cutoff else measure.name
                assert found[name][place] == pytest.approx(measure.at(ranking, cutoff), abs=1e-12), name


def test_no_lists_have_no_measures() -> None:
    assert {name: len(values) for name, values in measure_lists([]).items()}["mrr"] == 0
