"""Lint: every rule reports what it should, leaves sound contracts alone and sees through evasions."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.contract import CONTRACT_FILE, Inventory
from repotrial.contract._lint import iter_rules
from support.lint_cases import FIELD_CASES
from support.lint_contracts import DROP, REFERENCE, STATEMENT, Case, Spoiled, merged, unit
from support.lint_text_cases import LEAK, TEXT_CASES, TOKEN

RULES = list(iter_rules())
CASES = [*FIELD_CASES, *TEXT_CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_speaks_exactly_where_it_should(case: Case) -> None:
    assert (case.code in case.spoiled.codes()) == case.is_reported


def test_sound_contract_has_no_problems() -> None:
    assert Spoiled().lint() == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_tried_in_all_three_ways(rule: Any) -> None:
    assert {case.kind for case in CASES if case.code == rule.code} == {"speaks", "quiet", "evasion"}


def test_codes_are_unique_and_stable_in_form() -> None:
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_documents_what_why_and_fix(rule: Any) -> None:
    paragraphs = rule.docstring.split("\n\n")
    assert rule.summary.endswith(".")
    assert [text.partition(":")[0] for text in paragraphs[1:]] == ["Why", "Fix"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_documented_example_triggers_its_rule(rule: Any) -> None:
    text = rule.example.text
    match rule.example.file:
        case "contract.toml" if rule.code == "missing-reference":
            spoiled = Spoiled(contract={"reference": DROP})
        case "contract.toml":
            spoiled = Spoiled(contract=_replacing_tables(tomllib.loads(text)))
        case "statement.md":
            spoiled = Spoiled(statement=text)
        case "reference.patch":
            spoiled = Spoiled(reference=text.encode())
        case _:
            spoiled = Spoiled(inventories={"unit": msgspec.json.decode(text, type=Inventory)})
    assert rule.code in spoiled.codes()


def _replacing_tables(fragment: dict[str, object]) -> dict[str, object]:
    """Where an example shows an empty table, the table is meant to be empty."""
    return {
        key: _replacing_tables(value) if isinstance(value, dict) and value else DROP if value == {} else value
        for key, value in fragment.items()
    }


def test_problem_names_rule_field_line_and_both_sides() -> None:
    spoiled = Spoiled(contract={"policy": {"max_lines_changed": 1}}, lines={"policy.max_lines_changed": 41})
    (problem,) = spoiled.lint()
    assert (problem.file, problem.line, problem.field) == (CONTRACT_FILE, 41, "policy.max_lines_changed")
    assert (problem.code, problem.severity) == ("reference-exceeds-limits", "error")
    assert problem.message == "expected at most 1 lines in the reference change, found 6"
    assert problem.hint


def test_missing_field_is_placed_where_the_loader_says() -> None:
    spoiled = Spoiled(
        contract={"checks": [unit(timeout_seconds=DROP)]}, lines={"checks[0].timeout_seconds": 17}
    )
    (problem,) = spoiled.lint()
    assert (problem.field, problem.line) == ("checks[0].timeout_seconds", 17)


def test_place_that_nobody_knows_is_left_out() -> None:
    (problem,) = Spoiled(contract={"reference": DROP}).lint()
    assert problem.line is None


def test_leaked_line_is_shown_at_its_line_of_the_statement() -> None:
    statement = f"{STATEMENT}\n```\nx\n    {LEAK}\n```\n"
    problem = next(p for p in Spoiled(statement=statement).lint() if p.code == "reference-in-statement")
    assert problem.file == "statement.md"
    assert problem.line == statement[: statement.index(LEAK)].count("\n") + 1
    assert LEAK in problem.message


def test_whole_patch_in_the_statement_is_summed_up() -> None:
    added = [f"value_{n} = compute(n={n}, scale=width)" for n in range(50)]
    patch = "--- a/textkit/w.py\n+++ b/textkit/w.py\n@@ -0,0 +1,50 @@\n" + "".join(
        f"+{line}\n" for line in added
    )
    spoiled = Spoiled(statement=STATEMENT + "\n".join(added), reference=patch.encode())
    problems = [p for p in spoiled.lint() if p.code == "reference-in-statement"]
    assert len(problems) == 6
    assert any("45 further lines" in problem.message for problem in problems)


def test_secret_is_never_repeated() -> None:
    spoiled = Spoiled(
        contract={
            "environment": {"variables": {"A": TOKEN}},
            "setup": [{"run": f"curl {TOKEN}", "timeout_seconds": 9}],
        }
    )
    problems = spoiled.lint()
    assert {problem.code for problem in problems} == {"secret-in-variables", "secret-in-text"}
    assert TOKEN not in "".join(map(str, problems))


def test_vagueness_is_called_a_heuristic() -> None:
    (problem,) = Spoiled(statement="Make wrapping better.\n").lint()
    assert problem.severity == "warning"
    assert "heuristic" in problem.message


def test_problems_come_in_the_order_of_the_files() -> None:
    spoiled = Spoiled(
        contract={"limits": {"wall_seconds": 100}, "environment": {"isolation": "L0"}},
        statement="Make wrapping better.\n",
        lines={"limits.command_seconds": 90, "checks[0].timeout_seconds": 50, "environment.isolation": 20},
    )
    places = [(problem.file, problem.line) for problem in spoiled.lint()]
    assert places == [(CONTRACT_FILE, 20), (CONTRACT_FILE, 50), (CONTRACT_FILE, 90), ("statement.md", 1)]


def test_lint_gives_the_same_answer_twice() -> None:
    loaded = Spoiled(contract={"policy": {"writable": ["**"], "protected": []}}, statement=LEAK)
    assert loaded.lint() == loaded.lint()


@given(st.binary(max_size=300))
def test_no_bytes_in_place_of_a_patch_end_in_a_traceback(data: bytes) -> None:
    Spoiled(reference=data).lint()


@given(
    st.lists(
        st.tuples(st.integers(0, len(REFERENCE) - 1), st.sampled_from(b'+-@ \n\\"0a/\x00\xff\r\x0c')),
        max_size=8,
    )
)
def test_no_damage_to_a_patch_ends_in_a_traceback(edits: list[tuple[int, int]]) -> None:
    data = bytearray(REFERENCE)
    for place, byte in edits:
        data[place] = byte
    Spoiled(reference=bytes(data)).lint()


@given(st.text(max_size=200))
def test_no_statement_ends_in_a_traceback(statement: str) -> None:
    Spoiled(statement=statement).lint()


@given(
    st.lists(
        st.text(alphabet="abt*!?[]-#/. {}", min_size=1, max_size=12).filter(lambda g: "\\" not in g),
        max_size=4,
    )
)
def test_no_globs_end_in_a_traceback(globs: list[str]) -> None:
    document = merged({}, {"policy": {"writable": [g.lstrip("/") or "x" for g in globs if ".." not in g]}})
    Spoiled(contract=document).lint()
