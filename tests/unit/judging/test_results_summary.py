"""Many results as one, held against what must be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repotrial.contract import Inventory
from repotrial.judging._results._model import MAX_ID_BYTES, TestOutcome, TestResult, clean_id
from repotrial.judging._results._parse import parse_results
from repotrial.judging._results._summary import InventoryVerdict, compare_with_inventory, merge_results
from support.errors import raises_code


def _results(**outcomes: TestOutcome) -> tuple[TestResult, ...]:
    return tuple(TestResult(id=test, outcome=outcome) for test, outcome in outcomes.items())


def _is_satisfied(verdict: InventoryVerdict) -> bool:
    return not (verdict.missing or verdict.failing or verdict.skipped_unexpected or verdict.contradictory)


def test_the_worst_outcome_counts_and_the_contradiction_is_kept() -> None:
    summary = merge_results(
        [_results(a="pass", b="fail", c="skip", d="pass"), _results(a="pass", b="pass", c="pass", d="error")]
    )
    assert summary.passed == {"a"}
    assert summary.failed == {"b", "d"}
    assert summary.skipped == {"c"}
    assert summary.duplicates == {"b", "c", "d"}


def test_an_inventory_needs_an_explicit_pass_of_every_id() -> None:
    summary = merge_results([_results(a="pass", b="fail", c="skip", d="skip", x="error", y="skip", z="pass")])
    inventory = Inventory(fail_to_pass=("a", "b", "gone"), pass_to_pass=("c", "d"))
    verdict = compare_with_inventory(summary, inventory, ["d"])
    assert verdict.missing == ("gone",)
    assert verdict.failing == ("b",)
    assert verdict.skipped_unexpected == ("c",)
    assert verdict.unlisted_failing == ("x",)


def test_an_inventory_is_satisfied_by_passes_alone() -> None:
    inventory = Inventory(fail_to_pass=("a",), pass_to_pass=("b",))
    assert _is_satisfied(compare_with_inventory(merge_results([_results(a="pass", b="pass")]), inventory))
    twice = merge_results([_results(a="pass", b="pass"), _results(a="skip")])
    assert compare_with_inventory(twice, inventory, ["a"]).contradictory == ("a",)


def test_an_inventory_may_hold_control_characters_as_the_runner_prints_them() -> None:
    summary = merge_results([parse_results(b"1..1\nok 1 - a\x1b[0m\n", format="tap")])
    assert summary.passed == {"a\u241b1b;[0m"}
    for written in ("a\x1b[0m", "a\u241b1b;[0m"):
        assert _is_satisfied(compare_with_inventory(summary, Inventory(fail_to_pass=(written,))))


@given(st.text(), st.text())
def test_different_ids_stay_different(first: str, second: str) -> None:
    assert (clean_id(first) == clean_id(second)) == (first == second)


@given(st.text(alphabet=st.sampled_from("a\u241b1b;\x1b\x00\ud800"), max_size=8))
def test_an_id_can_be_read_back(raw: str) -> None:
    parts = clean_id(raw).split("\u241b")
    codes = [part.partition(";") for part in parts[1:]]
    assert parts[0] + "".join(chr(int(code, 16)) + rest for code, _, rest in codes) == raw


def test_an_id_that_is_too_long_is_refused_not_cut() -> None:
    fits = "x" * MAX_ID_BYTES
    assert len(parse_results(f"1..1\nok 1 - {fits}\n".encode(), format="tap")) == 1
    for text, prefix in ((f"1..1\nok 1 - {fits}x\n", ""), (f"1..1\nok 1 - {fits}\n", "p")):
        with raises_code("results-unreadable", match="id of 1 to"):
            parse_results(text.encode(), format="tap", prefix=prefix)
