"""README and tutorial: every command is run as it stands, and says what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.caches import find_shared_cache
from support.consoles import REAL_AGENT, ROOT, find_missing, iter_blocks, open_copy, verify_steps
from support.harness import require_sandboxes

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorial").glob("*.md"))]
MAKE = ["make demo", "make test"]
"""They take minutes; `make fresh` tries the first."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_console_block_runs_as_it_stands(page: Path) -> None:
    require_sandboxes()
    blocks = [
        block
        for block in iter_blocks(page.read_text(encoding="utf-8"))
        if not any(step.command.startswith(REAL_AGENT) for step in block)
    ]
    steps = [step for block in blocks for step in block if not step.command.startswith(tuple(MAKE))]
    assert steps
    with open_copy() as place:
        verify_steps(page, steps, place=place, cache=find_shared_cache())


def test_nothing_is_elided() -> None:
    for page in PAGES:
        for block in iter_blocks(page.read_text(encoding="utf-8")):
            for step in block:
                assert not re.search(r"…|\.\.\. |\.\.\.$", "\n".join([step.command, *step.shown])), page.name


def test_only_two_make_commands_are_left_out() -> None:
    commands = [
        step.command
        for page in PAGES
        for block in iter_blocks(page.read_text(encoding="utf-8"))
        for step in block
    ]
    left_out = [command for command in commands if command.startswith("make ")]
    assert [" ".join(command.split()[:2]) for command in left_out] == MAKE


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (["a  b  c", "e"], None),
        (["a b"], "a b"),
        (["e", "a  b"], "a  b"),
        (["runs/x-r0-0123456789-a1"], None),
        (["3 passed in 0.01s"], None),
        (["4 passed in 0.01s"], "4 passed in #s"),
    ],
)
def test_a_page_that_shows_something_else_is_found(shown: list[str], missing: str | None) -> None:
    output = "noise\na    b  c  d\nruns/x-r0-abcdefabcd-a1\n3 passed in 1.20s\ne\n"
    assert find_missing(shown, output) == missing
