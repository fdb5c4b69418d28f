"""A statement on the screen shows everything that an agent is given."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from repotrial.cli._contract_view import render_statement

_MARKS = [
    "# ",
    "- ",
    "1. ",
    "> ",
    "    ",
    "\t",
    "```",
    "~~~~",
    "|",
    "---",
    "===",
    "<!--",
    "-->",
    "[x]: ",
    "](",
    "  ",
]
STATEMENTS = st.lists(
    st.lists(st.sampled_from([*_MARKS, "word", "&#8238;", "ESC\x1b[2J", "é"]), max_size=5).map(" ".join),
    max_size=12,
).map("\n".join)


def shown(statement: str, *, width: int = 60) -> str:
    console = Console(width=width, markup=False, highlight=False, emoji=False, color_system=None)
    with console.capture() as captured:
        console.print(render_statement(statement))
    return captured.get()


@given(STATEMENTS)
@example("```\na\n````\nb\n```")
def test_nothing_is_left_out_added_or_reordered(statement: str) -> None:
    expected = statement.replace("\x1b", "\\x1b")
    assert re.sub(r"\s+", "", shown(statement)) == re.sub(r"\s+", "", expected)


@pytest.mark.parametrize(
    "hidden",
    [
        "<!-- the agent reads this -->",
        "[//]: # (the agent reads this)",
        "![alt](the-agent-reads-this.png)",
        "[text](https://example.org/the-agent-reads-this)",
        "| a |\n| - |\n| 1 | the agent reads this |",
        "``` python the agent reads this\n```",
        "&#8238;the agent reads this",
    ],
)
def test_what_markdown_hides_is_shown(hidden: str) -> None:
    assert "".join(hidden.split()) in "".join(shown(f"Fix it.\n\n{hidden}\n").split())


def test_paragraphs_flow_and_code_stays() -> None:
    statement = "A paragraph\nin two lines.\n\n- an item\n  goes on\n- another\n\n```\na\nb\n```\nThe end."
    assert [line.rstrip() for line in shown(statement).splitlines()] == [
        "A paragraph in two lines.",
        "",
        "- an item goes on",
        "- another",
        "",
        "```",
        "a",
        "b",
        "```",
        "The end.",
    ]


def test_headings_and_code_have_a_style() -> None:
    styles = {str(span.style) for span in render_statement("# A\n\n```\nb\n```\n").spans}
    assert styles == {"bold", "cyan"}


def test_an_empty_statement_is_empty() -> None:
    assert shown("").strip() == ""
