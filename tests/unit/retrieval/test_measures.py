"""Measures: against hand-computed values, and against `pytrec_eval` on ten thousand random lists."""

from __future__ import annotations

import math
import random

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from repotrial.retrieval import CUTOFFS, MEASURES, normalize_as_reference, normalize_path, rank

_THEIRS = {"P": "precision", "recall": "recall", "ndcg_cut": "ndcg"}
_LISTS = 10_000


def test_values_that_were_computed_by_hand() -> None:
    ranking = rank(["x", "a", "y", "b"], {"a", "b", "c"})
    assert MEASURES["precision"].at(ranking, 3) == pytest.approx(1 / 3)
    assert MEASURES["precision"].at(ranking, 10) == pytest.approx(0.2)
    assert MEASURES["recall"].at(ranking, 3) == pytest.approx(1 / 3)
    assert MEASURES["f1"].at(ranking, 5) == pytest.approx(2 * 0.4 * (2 / 3) / (0.4 + 2 / 3))
    assert MEASURES["mrr"].at(ranking) == pytest.approx(0.5)
    assert MEASURES["map_score"].at(ranking) == pytest.approx((1 / 2 + 2 / 4) / 3)
    ideal = 1 + 1 / math.log2(3) + 0.5
    assert MEASURES["ndcg"].at(ranking, 5) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert MEASURES["file_recall"].at(ranking) == pytest.approx(2 / 3)
    assert MEASURES["context_efficiency"].at(ranking) == pytest.approx(0.5)


def test_an_empty_list_finds_nothing_and_divides_by_nothing() -> None:
    ranking = rank([], {"a"})
    assert {measure.at(ranking, 5) for measure in MEASURES.values()} == {0.0}


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
    for query, files in lists.items():
        ranking = rank(files, truth[query])
        found = {
            **{
                f"{name}_{cutoff}": MEASURES[ours].at(ranking, cutoff)
                for name, ours in _THEIRS.items()
                for cutoff in CUTOFFS
            },
            "recip_rank": MEASURES["mrr"].at(ranking),
            "map": MEASURES["map_score"].at(ranking),
        }
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
        ("a/b/src/x.py", "a/b/src/x.py", "b/src/x.py"),
        ("src/a.py/", "src/a.py", "src/a.py"),
        ("", "", ""),
    ],
)
def test_paths_are_compared_by_the_rule_that_was_asked_for(path: str, ours: str, reference: str) -> None:
    assert normalize_path(path) == ours
    assert normalize_as_reference(path) == reference
