from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from repotrial.contract import Contract, Inventory
from repotrial.contract._convert import convert_collecting
from repotrial.contract._problems import (
    MAX_FINDINGS,
    DocumentFinding,
    describe,
    join_choices,
    nearest,
    render_field,
)
from support.contracts import COMMIT


def build_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "repotrial/contract@1",
        "id": "minimal",
        "title": "A title",
        "kind": "bug-fix",
        "repository": {"kind": "git", "source": "repo.bundle", "commit": COMMIT},
        "environment": {"image": "host"},
        "checks": [{"id": "unit", "gate": "acceptance", "run": "make check"}],
        **changes,
    }


def findings_of(**changes: Any) -> list[DocumentFinding]:
    return list(convert_collecting(build_document(**changes), Contract).findings)


def only(findings: list[DocumentFinding]) -> DocumentFinding:
    assert len(findings) == 1, findings
    return findings[0]


def check_with(**fields: Any) -> dict[str, Any]:
    return {"checks": [{"id": "unit", "gate": "acceptance", "run": "make check", **fields}]}


def test_a_sound_document_becomes_the_model() -> None:
    conversion = convert_collecting(build_document(), Contract)
    assert conversion.findings == ()
    assert conversion.document == msgspec.convert(build_document(), Contract)


def test_paths_are_listed_with_their_defaults() -> None:
    changes = check_with(files=[{"from": "checks/unit", "to": "tests"}], inventory="checks/unit.json")
    conversion = convert_collecting(build_document(**changes), Contract)
    found = {render_field(use.place): (use.path, use.extra["entry"]) for use in conversion.paths}
    assert found == {
        "statement": ("statement.md", "file"),
        "checks[0].files[0].from": ("checks/unit", "any"),
        "checks[0].inventory": ("checks/unit.json", "file"),
    }


def test_all_findings_come_at_once() -> None:
    findings = findings_of(
        id="Not An Id",
        kind="bug",
        surprise=1,
        environment={"image": "host", "variables": {"1X": 5}},
        checks=[{"id": "unit", "gate": "accept", "timeout": 5}, 7],
    )
    assert {(finding.code, render_field(finding.place)) for finding in findings} == {
        ("key-unknown", "surprise"),
        ("value-invalid", "id"),
        ("choice-unknown", "kind"),
        ("key-invalid", "environment.variables.1X"),
        ("value-invalid", "environment.variables.1X"),
        ("choice-unknown", "checks[0].gate"),
        ("key-unknown", "checks[0].timeout"),
        ("value-invalid", "checks[1]"),
    }


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"titel": "x"}, 'did you mean "title"?'),
        ({"enviroment": {}}, 'did you mean "environment"?'),
        ({"labels-": []}, 'did you mean "labels"?'),
        ({"wall_seconds": 5}, '"wall_seconds" belongs in [limits]'),
        ({"runners": []}, '"runners" belongs in [[checks]]'),
        ({"behaviour": []}, 'did you mean "behavior" in [clarify]?'),
        (check_with(is_mandatory=True), 'did you mean "mandatory"?'),
        (check_with(timeout=5), 'did you mean "timeout_seconds"?'),
        (check_with(cost_usd=5), '"cost_usd" belongs in [limits]'),
        (check_with(wholly_other=5), "known here: id, gate, layer, mandatory, run"),
        ({"timeout_seconds": 5}, "belongs in [environment.services.readiness], [[setup]] or [[checks]]"),
    ],
)
def test_an_unknown_key_is_told_where_it_belongs(changes: dict[str, Any], hint: str) -> None:
    finding = only(findings_of(**changes))
    assert finding.code == "key-unknown"
    assert hint in finding.hint


def test_a_look_alike_key_is_unmasked() -> None:
    finding = only(findings_of(**check_with(tіmeout_seconds=5)))
    assert "U+0456" in finding.message
    assert finding.hint == 'did you mean "timeout_seconds"?'


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            check_with(timeout_seconds="60"),
            'whole seconds from 1 to 604800 (a week), found the text "60"',
            "quotes",
        ),
        (check_with(timeout_seconds=True), "found true", ""),
        (check_with(timeout_seconds=Decimal("60.0")), "found 60.0", "write it without a decimal point"),
        (check_with(timeout_seconds=Decimal("60.5")), "found 60.5", ""),
        (check_with(timeout_seconds=0), "found 0", ""),
        (check_with(timeout_seconds=10**400), "found an integer of about 401 digits", ""),
        (check_with(timeout_seconds=dt.date(2030, 1, 1)), "a TOML date or time (2030-01-01)", ""),
        (check_with(repeats=0), "a whole number, at least 1, found 0", ""),
        (check_with(mandatory="true"), 'true or false, found the text "true"', "write it without quotes"),
        (check_with(mandatory=1), "true or false, found 1", ""),
        (check_with(run=5), "a shell command line, found 5", "write it in quotes"),
        (check_with(run=""), "a shell command line, found empty text", ""),
        (check_with(run="a\0b"), "NUL", ""),
        (check_with(run="x" * 20_001), "20001 characters; at most 20000", ""),
        (check_with(needs="build"), "an array, each item a name", "write it in brackets"),
        (check_with(results="junit"), "an array of tables, found the text", "write [{ format = … }]"),
        (check_with(results=["junit"]), "a table, found the text", "write { format = … }"),
        (check_with(variables=[]), "a table, found an empty array", ""),
        ({"limits": {"cost_usd": Decimal("NaN")}}, "found NaN (it is not a finite number)", ""),
        ({"limits": {"cost_usd": Decimal("-Infinity")}}, "not a finite number", ""),
        ({"limits": {"cost_usd": Decimal("1E+9999999")}}, "at most 28 digits", ""),
        ({"limits": {"cost_usd": Decimal("1E-9999999")}}, "at most 28 digits", ""),
        ({"limits": {"cost_usd": 10**400}}, "at most 28 digits", ""),
        ({"limits": {"cost_usd": "1e5"}}, "a decimal number", ""),
        ({"limits": {"cost_usd": True}}, "found true", ""),
        ({"limits": 5}, "a table, found 5", ""),
        ({"checks": []}, "at least 1, found an empty array", ""),
        ({"title": ""}, "one line of text, found empty text", ""),
        ({"title": "  "}, "one line of text", ""),
        ({"title": "One\nTwo"}, "one line of text", ""),
        (
            {"policy": {"network": {"kind": "allow-list", "hosts": ["https://index.example.org/simple"]}}},
            "a host name, with ':port' where it is needed, without scheme and path",
            "",
        ),
    ],
)
def test_a_wrong_value_is_said_in_words(changes: dict[str, Any], message: str, hint: str) -> None:
    finding = only(findings_of(**changes))
    assert message in finding.message
    assert hint in finding.hint
    assert "^" not in finding.message  # never a pattern


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/passwd", "it is absolute"),
        ("a/../../b", "it climbs out with '..'"),
        ("..", "it climbs out with '..'"),
        ("a\\b", "a backslash"),
        ("C:/x", "drive letter"),
        ("a\n", "control character"),
        ("", "found empty text"),
    ],
)
def test_a_path_that_leaves_the_directory_is_refused_with_the_reason(path: str, reason: str) -> None:
    assert reason in only(findings_of(statement=path)).message


def test_a_relative_path_is_no_path_of_the_sandbox() -> None:
    mounts = [{"target": "scratch", "kind": "tmpfs"}]
    finding = only(findings_of(environment={"image": "host", "mounts": mounts}))
    assert "an absolute path inside the sandbox" in finding.message
    assert "it is relative" in finding.message


def test_a_choice_lists_what_is_allowed_and_suggests_the_nearest() -> None:
    finding = only(findings_of(kind="bugfix"))
    assert '"api-migration", "bug-fix",' in finding.message
    assert finding.hint == 'did you mean "bug-fix"?'


def test_an_alternative_without_its_kind_is_recognized_by_its_keys() -> None:
    findings = findings_of(repository={"source": "repo.bundle", "commit": "main"})
    assert [(finding.code, render_field(finding.place)) for finding in findings] == [
        ("key-missing", "repository.kind"),
        ("value-invalid", "repository.commit"),
    ]
    assert findings[0].hint == 'add kind = "git"'


def test_an_unknown_kind_lists_the_known_ones() -> None:
    finding = only(findings_of(repository={"kind": "arkive", "source": "x"}))
    assert 'kind = "git", "archive" or "directory"' in finding.message
    assert finding.hint == 'did you mean "archive"?'
    assert "found 5" in only(findings_of(repository={"kind": 5})).message


def test_a_name_or_a_table_is_expected_where_either_may_stand() -> None:
    finding = only(findings_of(environment={"image": "hots"}))
    kinds = '"reference", "archive", "docker-archive" or "layout"'
    assert f'"host", or a table with kind = {kinds}' in finding.message
    assert finding.hint == 'did you mean "host"?'
    finding = only(findings_of(environment={"image": "python:3.12"}))
    assert finding.hint == 'or write { kind = "reference", reference = … }'


def test_null_is_sound_only_where_it_is_an_alternative() -> None:
    value = {"fail_to_pass": None}
    assert "found null" in convert_collecting(value, Inventory).findings[0].message


def test_half_of_a_surrogate_pair_is_refused() -> None:
    conversion = convert_collecting({"fail_to_pass": ["\ud800"]}, Inventory)
    assert "surrogate" in conversion.findings[0].message
    conversion.findings[0].message.encode()


def test_very_many_findings_are_counted_instead_of_listed() -> None:
    conversion = convert_collecting({"fail_to_pass": [5] * 100_000}, Inventory)
    assert len(conversion.findings) == MAX_FINDINGS + 1
    assert conversion.findings[-1].message == f"and {100_000 - MAX_FINDINGS} more, not listed here"


def test_very_many_unknown_keys_are_counted_instead_of_compared() -> None:
    conversion = convert_collecting({f"key{number}": 1 for number in range(50_000)}, Inventory)
    assert conversion.findings[-1].code == "more-problems"


def test_whatever_was_found_can_be_described() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    described = [describe(value) for value in (deep, {"a": 1}, {}, b"x", "é" * 1000, 2**100_000, dt.time(1))]
    assert all(len(text) < 150 for text in described)
    assert describe('say "x"\x1b[31m') == 'the text "say \\"x\\"\\x1b[31m"'


def test_words_are_joined_and_compared() -> None:
    assert join_choices(["a"]) == "a"
    assert join_choices(["a", "b", "c"]) == "a, b or c"
    assert nearest("time-out", ["timeout", "other"]) == "timeout"
    assert nearest("x" * 1_000_000, ["x"]) is None
