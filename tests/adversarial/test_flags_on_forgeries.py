"""How many forgeries the review flags find, by tricks that their rules were and were not written for."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.policy import find_review_flags

TABLE: Final = Path(__file__).parents[1] / "data" / "forgeries.toml"
FORGERIES: Final[list[dict[str, Any]]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["forgery"]
KNOWN: Final = [row for row in FORGERIES if not row.get("held_out")]
HELD_OUT: Final = [row for row in FORGERIES if row.get("held_out")]
NOT_FOUND: Final = {
    "every comparison holds, by a lambda",
    "marks are told by the time of a look",
    "reports are patched through the table of modules",
}
"""Known, and missed at least where they stand in a file that is changed: a line tells less than a file."""


def is_found(row: dict[str, Any]) -> bool:
    """Whether a line that would run, or the file itself, has a flag: in a new file and in a changed one."""
    added = tuple(AddedLine(number, text) for number, text in enumerate(row["text"].split("\n"), start=1))
    views = [
        ChangeView(
            files=(ChangedFile(path=row["path"], kind=kind, added_lines=added, mode="100644"),),
            digest="sha256:" + "0" * 64,
        )
        for kind in ("added", "modified")
    ]
    return all(any(flag.confidence == "code" for flag in find_review_flags(view)) for view in views)


def test_there_are_forgeries_enough_and_each_has_its_own_name() -> None:
    assert len({row["name"] for row in FORGERIES}) == len(FORGERIES) >= 40
    assert len(HELD_OUT) >= len(FORGERIES) / 3


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_a_forgery_that_rules_were_written_for_is_flagged(row: dict[str, Any]) -> None:
    assert is_found(row) == (row["name"] not in NOT_FOUND)


def test_most_of_the_forgeries_that_no_rule_was_written_for_are_flagged() -> None:
    missed = [row["name"] for row in HELD_OUT if not is_found(row)]
    assert len(missed) <= 3, missed
