from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from repotrial.contract import Problem
from repotrial.contract._problems import Place, enclosing_field, render_field
from repotrial.contract._text import MAX_KEY_PARTS, LineIndex, decode_text, parse_json, parse_toml
from support.contracts import FIXTURE_NAMES, FIXTURES

DOCUMENT = b"""\
# a comment
top = 1
dotted.key.deep = 2
"quoted key" = 3
'lit.eral' = 4

[table]  # another
value = 5
inline = { one = 1, two.three = [10, { four = 4 }] }
many = [
    "first",  # comment
    "second",
    { name = "third" },
]

[table."odd.name".inner]
x = 6

[[checks]]
id = "a"

[checks.deeper]
y = 7

[[checks.runners]]
run = "a"

[[checks.runners]]
run = "b"

[[checks]]
id = "b"
runners = [
    { run = "c" },
]
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("top", 2),
        ("dotted", 3),
        ("dotted.key", 3),
        ("dotted.key.deep", 3),
        ('"quoted key"', 4),
        ('"lit.eral"', 5),
        ("table", 7),
        ("table.value", 8),
        ("table.inline", 9),
        ("table.inline.one", 9),
        ("table.inline.two.three[1].four", 9),
        ("table.many", 10),
        ("table.many[0]", 11),
        ("table.many[2].name", 13),
        ('table."odd.name"', 16),
        ('table."odd.name".inner.x', 17),
        ("checks", 19),
        ("checks[0]", 19),
        ("checks[0].id", 20),
        ("checks[0].deeper.y", 23),
        ("checks[0].runners[0]", 25),
        ("checks[0].runners[1].run", 29),
        ("checks[1]", 31),
        ("checks[1].runners[0].run", 34),
    ],
)
def test_a_field_is_found_on_its_line(field: str, line: int) -> None:
    assert LineIndex(DOCUMENT).locate(field) == line


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("table.missing", 7),
        ("checks[1].timeout_seconds", 31),
        ("checks[0].runners[1].results[0].format", 28),
        ('table."odd.name".missing."with.dots"', 16),
        ("missing", None),
        ("missing.deeper[3]", None),
        ("", None),
    ],
)
def test_an_absent_field_has_the_line_of_the_table_around_it(field: str, line: int | None) -> None:
    assert LineIndex(DOCUMENT).locate(field) == line


def iter_leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield from iter_leaves(item, (*place, step))
    if place and not isinstance(value, dict | list):
        yield place


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_every_key_of_a_real_contract_stands_on_the_line_that_is_named(name: str) -> None:
    data = (FIXTURES / name / "contract.toml").read_bytes()
    index, lines = LineIndex(data), data.decode().splitlines()
    leaves = list(iter_leaves(tomllib.loads(data.decode())))
    assert len(leaves) > 40
    for place in leaves:
        line = index.locate(render_field(place))
        keys = [step for step in place if isinstance(step, str)]
        assert line is not None
        if isinstance(place[-1], str):
            assert keys[-1] in lines[line - 1]


def test_windows_line_ends_do_not_move_lines() -> None:
    index = LineIndex(DOCUMENT.replace(b"\n", b"\r\n"))
    assert index.locate("checks[1].id") == 32


def test_fields_are_written_as_people_write_them() -> None:
    assert render_field(("checks", 0, "timeout_seconds")) == "checks[0].timeout_seconds"
    assert render_field(("a b", "ü", 'q"q')) == '"a b"."ü"."q\\"q"'
    assert render_field(("\u202ex", "\ud800")) == '"\\u202ex"."\\ud800"'
    assert render_field(()) == ""
    assert render_field(("x" * 10_000,)).endswith('…"')


def test_the_enclosing_field_ends_at_the_root() -> None:
    steps = []
    field = 'checks[0]."a.b[1]".c'
    while field:
        field = enclosing_field(field)
        steps.append(field)
    assert steps == ['checks[0]."a.b[1]"', "checks[0]", "checks", ""]
    assert enclosing_field("]broken[") == ""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a = 1\nb = \n", 2, "invalid value (column 5)"),
        ("a = [1,\n", 2, "found"),
        ("a = 1\nb 2\n", 2, "expected '=' after a key"),
        ("a = 1\n\n[t]\nx = 1\n\n[t]\n", 6, "'t' again (first on line 3)"),
        ("[t]\nb = 1\nc = 2\nb = 3\n", 4, "'t.b' again (first on line 2)"),
        ("a = 2024-02-31\n", 1, "invalid date"),
        ("a = 1\nb = 1" + "0" * 5000, 2, "thousands of digits"),
        ("a = 1\n" + ".".join(["k"] * (MAX_KEY_PARTS + 1)) + " = 1", 2, "dotted parts"),
    ],
)
def test_a_syntax_error_names_line_and_reason(text: str, line: int, words: str) -> None:
    problem = parse_toml(text, file="contract.toml")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.line) == ("toml-syntax", line)
    assert words in problem.message.lower()


def test_a_long_dotted_text_in_a_string_is_no_key_of_many_parts() -> None:
    assert parse_toml('a = "' + ".".join(["x"] * 20) + '"', file="f") == {"a": ".".join(["x"] * 20)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"a": NaN}', "the number NaN"),
        ('{"a": [1,]}', "column"),
        ("", "column 1"),
        ("[" * 100_000, "nesting"),
        ("1" * 5000, "digit"),
    ],
)
def test_json_is_read_strictly(text: str, words: str) -> None:
    problem = parse_json(text, file="inventory.json")
    assert isinstance(problem, Problem)
    assert problem.code == "json-syntax"
    assert words in problem.message


def test_text_that_is_not_utf8_is_refused_with_its_offset() -> None:
    problem = decode_text(b"first\nsecond \xff\n", file="statement.md")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.line) == ("file-not-utf8", 2)
    assert "byte 0xff at byte offset 13" in problem.message
