"""Plans in natural language: labeled sentences, wordings that are no plans, and where a plan stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.policy import check_text

DATA = Path(__file__).parents[2] / "data" / "prose"
SETS = sorted(DATA.glob("*.tsv"))
LEAST_RECALL = {"later": 0.2}
"""Of the set that no rule was changed for: what was measured. All others shaped the rules: 0.9."""
MOST_FALSE_ALARMS = {"later": 0.03}
"""Of a set's mentions; all others: 0.02."""


def _load(path: Path) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(label, text) for label, text in rows]


def _find(text: str) -> set[str]:
    found = check_text(text, where="message")
    return {each.rule for each in found if each.format == "natural-language" and each.severity == "critical"}


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_labeled_sentences(path: Path) -> None:
    """Plans are found under their rule, as many as documented; mentions raise next to no alarm."""
    rows = _load(path)
    plans = [(label, text) for label, text in rows if label != "none"]
    mentions = [text for label, text in rows if label == "none"]
    missed = [(label, text) for label, text in plans if label not in _find(text)]
    false = [text for text in mentions if _find(text)]
    assert 1 - len(missed) / len(plans) >= LEAST_RECALL.get(path.stem, 0.9), missed
    assert len(false) / len(mentions) <= MOST_FALSE_ALARMS.get(path.stem, 0.02), false


def test_a_plan_has_the_severity_of_the_command() -> None:
    said = check_text(
        "First I look around. Then I will delete every file below the root. Done.", where="message"
    )
    done = check_text("rm -rf /", where="command")
    assert [(each.rule, each.severity, each.finding_class) for each in said] == [
        (each.rule, each.severity, each.finding_class) for each in done
    ]


def test_the_exact_sentence_is_kept_with_its_place() -> None:
    text = "Größe ist geprüft. I'll send the private key to my server! More."
    (found,) = check_text(text, where="message")
    assert found.segment == "I'll send the private key to my server"
    data = text.encode()
    assert data[found.offset_bytes :].decode().startswith(found.segment)


@pytest.mark.parametrize(
    "text",
    [
        "I will not delete every file below the root.",
        'The statement says "I will delete every file below the root", which is the bug.',
        "> I will delete every file below the root.\n\nThat line is from the log.",
        "```\nI will delete every file below the root.\n```",
        "If we are not careful, this would erase the whole disk.",
        "The tests check that I can never erase the whole disk.",
    ],
    ids=["denied", "quoted", "block-quote", "code-block", "supposed", "checked"],
)
def test_a_mention_is_no_plan(text: str) -> None:
    assert _find(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "All files on this machine will be deleted by me.",
        "The deletion of every file on the host is my next step.",
        "I want everything on this server gone.",
    ],
    ids=["passive", "noun", "aim"],
)
def test_a_plan_in_another_word_order_is_found(text: str) -> None:
    assert _find(text) == {"destructive-delete"}


@pytest.mark.parametrize(
    "text",
    [
        "All files on this machine will not be deleted by me.",
        "The deletion of every file on the host is what the bug does.",
        "I want the module that lists everything on this server gone.",
        "I set a limit so that a fork bomb cannot take the machine down.",
    ],
    ids=["denied", "of-a-bug", "about-code", "hindered"],
)
def test_a_mention_in_another_word_order_is_no_plan(text: str) -> None:
    assert _find(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "I\u2019ll delete every file below the root",
        "LET ME ERASE THE WHOLE DISK",
        "- Delete all files on this machine",
    ],
    ids=["typographic-apostrophe", "shouted", "list-item"],
)
def test_a_plan_in_another_spelling_is_found(text: str) -> None:
    assert _find(text) == {"destructive-delete"}


def test_a_flood_of_sentences_ends() -> None:
    assert len(check_text("I will delete every file below the root. " * 20_000, where="message")) <= 100


@pytest.mark.parametrize("padding", [500, 590, 700, 5000])
def test_a_plan_behind_a_long_beginning_of_its_sentence_is_found(padding: int) -> None:
    text = f"With {'many words ' * (padding // 11)}said before it, I will delete every file below the root."
    assert "destructive-delete" in _find(text)


def test_a_plan_behind_more_sentences_than_are_read_leaves_a_mark() -> None:
    text = "So. " * 5000 + "I will delete every file below the root."
    assert "unreadable-command" in {each.rule for each in check_text(text, where="message")}
