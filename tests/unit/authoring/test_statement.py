from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.authoring._statement import build_statement_draft, guess_kind, render_statement_form

_MESSAGE = """\
fix(wrap): fill() breaks East Asian text (#42)

Lines with wide characters come out twice as wide as asked for.


Seen with width=10 on Japanese text.

Fixes #41
Closes: https://example.org/issues/41
Refs owner/project#7, #8
(cherry picked from commit 0123456789abcdef0123456789abcdef01234567)
Change-Id: I0123456789
Signed-off-by: A Person <a@example.org>
Co-authored-by: Another <b@example.org>
 continued here
Reviewed-by: Third <c@example.org>
"""


def test_the_message_becomes_title_and_text() -> None:
    draft = build_statement_draft(_MESSAGE)
    assert draft.title == "fill() breaks East Asian text"
    assert draft.text == (
        "# fill() breaks East Asian text\n"
        "\n"
        "Lines with wide characters come out twice as wide as asked for.\n"
        "\n"
        "Seen with width=10 on Japanese text.\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "Fixes #1",
        "fixes: #1, #2 and #3",
        "Closes GH-12.",
        "Resolves https://example.org/x/1",
        "* Closes #3",
        "Fix PROJ-123",
        "See #9",
        "Acked-by: A <a@b>",
        "Tested-By: A <a@b>",
        "Link: https://example.org",
        "Bug: 1234",
        "PR-URL: https://example.org/pull/1",
    ],
)
def test_bookkeeping_is_removed(line: str) -> None:
    assert build_statement_draft(f"Subject\n\nBody.\n\n{line}\n").text == "# Subject\n\nBody.\n"


@pytest.mark.parametrize(
    "line",
    [
        "Fixes the width of wide characters.",
        "See the manual for width.",
        "Note: the width is in cells.",
        "Wide text: it breaks.",
    ],
)
def test_prose_is_kept(line: str) -> None:
    assert line in build_statement_draft(f"Subject\n\n{line}\n").text


@pytest.mark.parametrize(
    "message",
    [
        "Merge pull request #12 from someone/branch\n\nWide text breaks\n",
        "Merge branch 'x'\n\n\nWide text breaks",
    ],
)
def test_a_merge_takes_its_title_from_the_text_below(message: str) -> None:
    assert build_statement_draft(message).title == "Wide text breaks"


@pytest.mark.parametrize("message", ["", "\n\n", "\x00\x1b[0m", "Fixes: \u200b"])
def test_a_message_without_words_still_gives_a_title(message: str) -> None:
    assert build_statement_draft(message).title


def test_a_given_title_wins() -> None:
    assert build_statement_draft("Subject\n\nBody.", title="Mine").text == "# Mine\n\nBody.\n"


def test_a_subject_alone_gives_a_form_to_fill() -> None:
    assert build_statement_draft("Subject\n\nFixes #1").text == render_statement_form("Subject")


def test_very_long_messages_are_shortened() -> None:
    draft = build_statement_draft("s " * 500 + "\n\n" + "word " * 100_000)
    assert draft.is_shortened
    assert len(draft.title) <= 200
    assert len(draft.text) < 30_000


@given(st.text(max_size=300))
def test_any_message_gives_a_title_and_a_text(message: str) -> None:
    draft = build_statement_draft(message)
    assert 1 <= len(draft.title) <= 200
    assert draft.text.startswith(f"# {draft.title}\n")
    assert draft.text.endswith("\n")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("fix: x", "bug-fix"),
        ("feat(api)!: x", "feature"),
        ("refactor: x", "refactor"),
        ("docs: x", "documentation"),
        ("build(deps): x", "dependency-upgrade"),
        ("chore: x", "bug-fix"),
        ("Correct the width", "bug-fix"),
    ],
)
def test_the_prefix_announces_the_kind(message: str, kind: str) -> None:
    assert guess_kind(message)[0] == kind


def test_the_form_names_its_parts() -> None:
    form = render_statement_form("Title")
    assert [line for line in form.splitlines() if line.startswith("#")] == [
        "# Title",
        "## Expected",
        "## Observed",
        "## How to see it",
    ]
