"""Measures: against hand-computed values, and against `pytrec_eval` on ten thousand random lists."""

from __future__ import annotations

import math
import random

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from repotrial.retrieval._places import normalize_as_reference, normalize_path
from repotrial.retrieval._stages import CUTOFFS, measure_lists

_THEIRS = {"P": "precision", "recall": "recall", "ndcg_cut": "ndcg"}
_LISTS = 10_000


def test_values_that_were_computed_by_hand() -> None:
    found = _measure(["x", "a", "y", "b"], {"a", "b", "c"})
    assert found["precision@3"] == pytest.approx(1 / 3)
    assert found["precision@10"] == pytest.approx(0.2)
    assert found["recall@3"] == pytest.approx(1 / 3)
    assert found["f1@5"] == pytest.approx(2 * 0.4 * (2 / 3) / (0.4 + 2 / 3))
    assert found["mrr"] == pytest.approx(0.5)
    assert found["map_score"] == pytest.approx((1 / 2 + 2 / 4) / 3)
    ideal = 1 + 1 / math.log2(3) + 0.5
    assert found["ndcg@5"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert found["file_recall"] == pytest.approx(2 / 3)
    assert found["context_efficiency"] == pytest.approx(0.5)


def test_an_empty_list_finds_nothing_and_divides_by_nothing() -> None:
    assert set(_measure([], {"a"}).values()) == {0.0}


def test_no_lists_have_no_measures() -> None:
    assert {len(values) for values in measure_lists([]).values()} == {0}


_FILES = st.lists(st.sampled_from([f"f{n}" for n in range(30)]), unique=True, max_size=25)


@given(st.lists(st.tuples(_FILES, _FILES.filter(bool)), max_size=8))
def test_a_list_has_the_same_measures_among_others_as_alone(lists: list[tuple[list[str], list[str]]]) -> None:
    together = measure_lists(lists)
    for place, (retrieved, relevant) in enumerate(lists):
        assert {name: values[place] for name, values in together.items()} == _measure(
            retrieved, set(relevant)
        )


def _measure(retrieved: list[str], relevant: set[str]) -> dict[str, float]:
    return {name: values[0] for name, values in measure_lists([(retrieved, relevant)]).items()}


def test_ten_thousand_random_lists_agree_with_pytrec_eval() -> None:
    source = random.Random(20260307)
    lists, truth = {}, {}
    for number in range(_LISTS):
        files = [f"f{n}" for n in range(source.randint(1, 40))]
        lists[str(number)] = source.sample(files, source.randint(1, len(files)))
        truth[str(number)] = set(source.sample([*files, "never-1", "never-2"], source.randint(1, len(files))))
    theirs = pytrec_eval.RelevanceEvaluator(
        {query: dict.fromkeys(relevant, 1) for query, relevant in truth.items()},
        {*(f"{name}.{','.join(map(str, CUTOFFS))}" for name in _THEIRS), "recip_rank", "map"},
    ).evaluate({query: {f: float(-place) for place, f in enumerate(files)} for query, files in lists.items()})
    ours = measure_lists((files, truth[query]) for query, files in lists.items())
    names = {f"{their}_{k}": f"{our}@{k}" for their, our in _THEIRS.items() for k in CUTOFFS}
    names |= {"recip_rank": "mrr", "map": "map_score"}
    for place, query in enumerate(lists):
        found = {their: ours[name][place] for their, name in names.items()}
        assert found == pytest.approx(theirs[query], abs=1e-9), query


@given(st.text(alphabet="ab/. \\\t", max_size=12) | st.text(max_size=20).map("/workspace/{}".format))
def test_a_comparable_path_stays_as_it_is(path: str) -> None:
    once = normalize_path(path)
    assert normalize_path(once) == once


@pytest.mark.parametrize(
    ("path", "ours", "reference"),
    [
        ("/workspace/Src/A.py", "src/a.py", "src/a.py"),
        ("/testbed/src/a.py", "src/a.py", "testbed/src/a.py"),
        ("./src//b/../a.py", "src/a.py", "./src//b/../a.py"),
        ("a/b/src/x.py", "src/x.py", "b/src/x.py"),
        ("a", "a", "a"),
        ("src/a.py/", "src/a.py", "src/a.py"),
        ("", "", ""),
    ],
)
def test_paths_are_compared_by_the_rule_that_was_asked_for(path: str, ours: str, reference: str) -> None:
    assert normalize_path(path) == ours
    assert normalize_as_reference(path) == reference
