"""Where statements come from, and a person's yes to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repotrial.mining import Issues, MinedOrigin
from support.errors import raises_code

_CHANGELOG = b"""\
diff --git a/CHANGES.md b/CHANGES.md
--- a/CHANGES.md
+++ b/CHANGES.md
@@ -1 +1,2 @@
 # Changes
+- fill() keeps to the width where characters take two columns.
"""
_BODY = "Lines come out too wide where characters take two columns, and tables that hold them are torn apart."


def test_the_trackers_text_comes_before_the_commits_own(tmp_path: Path) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_text(
        json.dumps({"number": 41, "title": "Torn tables", "body": "fill('日本', 2) is too wide."})
    )
    found = Issues.load(path).find_statement(f"Fix it (#41)\n\n{_BODY}", _CHANGELOG, title="Fix it")
    assert (found.source, found.title) == ("issue", "Torn tables")
    assert "fill('日本', 2) is too wide." in found.text


@pytest.mark.parametrize(
    ("message", "reference", "source"),
    [
        (f"Fix it\n\n{_BODY}", _CHANGELOG, "message"),
        ("Fix it\n\nFixes #41", _CHANGELOG, "changelog"),
        ("Fix it", b"", "person"),
    ],
)
def test_without_a_tracker_the_message_then_the_changelog_then_a_person(
    message: str, reference: bytes, source: str
) -> None:
    assert Issues().find_statement(message, reference, title="Fix it").source == source


@pytest.mark.parametrize(
    "entry",
    [
        {"number": 7, "title": "Torn", "body": "text"},
        {"iid": 7, "title": "Torn", "description": "text"},
        {"key": "7", "fields": {"summary": "Torn", "description": "text"}},
    ],
    ids=["github", "gitlab", "jira"],
)
def test_exports_of_the_usual_trackers_are_read(tmp_path: Path, entry: dict[str, object]) -> None:
    path = tmp_path / "issues.json"
    path.write_text(json.dumps([entry]))
    issue = Issues.load(path).by_key["7"]
    assert (issue.title, issue.body) == ("Torn", "text")


def test_an_export_without_numbers_is_refused_by_its_entry(tmp_path: Path) -> None:
    path = tmp_path / "issues.json"
    path.write_text('[{"title": "Torn"}]')
    with raises_code("issues-invalid", match="entry 1"):
        Issues.load(path)


def test_a_yes_is_for_the_very_words(tmp_path: Path) -> None:
    (tmp_path / "mined.json").write_text('{"commit": "abc", "statement_source": "person"}')
    (tmp_path / "statement.md").write_text("It is too wide.\n")
    assert MinedOrigin.find_doubt(tmp_path) is not None
    origin = MinedOrigin.load(tmp_path)
    assert origin is not None
    origin.approve(tmp_path, by="kim")
    assert MinedOrigin.find_doubt(tmp_path) is None
    (tmp_path / "statement.md").write_text("It is too wide. Use cell_width.\n")
    assert MinedOrigin.find_doubt(tmp_path) is not None


def test_a_damaged_record_is_no_yes(tmp_path: Path) -> None:
    (tmp_path / "mined.json").write_text("{")
    (tmp_path / "statement.md").write_text("It is too wide.\n")
    assert MinedOrigin.find_doubt(tmp_path) is not None
