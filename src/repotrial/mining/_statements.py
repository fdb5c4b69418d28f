"""Where a statement can come from: a tracker's export, the merge's own text, a hunk of the changelog (C9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from repotrial._core.errors import AgentError, ErrorCode, UsageError
from repotrial.authoring import build_statement_draft
from repotrial.change import scan_patch
from repotrial.mining._rows import StatementSource

_REFERENCES: Final = re.compile(r"(?:#|GH-|!)(\d+)|\b([A-Z][A-Z0-9]+-\d+)\b")
_CHANGELOG: Final = re.compile(
    r"(?:^|/)(?:CHANGE(?:S|LOG)|HISTORY|NEWS|RELEASES?(?:[-_ ]?NOTES)?)[^/]*$"
    r"|(?:changes|newsfragments|changelog\.d)/",
    re.IGNORECASE,
)
_LEAST_CHARACTERS: Final = 80
"""Less says no more than the subject does."""

ISSUES_INVALID = ErrorCode(
    "issues-invalid",
    UsageError,
    "The export of a tracker cannot be read.",
    hint="give a JSON array or one JSON object per line, each with `number` (or `iid`, `key`), `title` "
    "and `body` (or `description`)",
)


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """An issue or a merge request of a tracker."""

    title: str
    body: str


class FoundStatement(msgspec.Struct, frozen=True, kw_only=True):
    """The draft of a statement, and where it is from."""

    source: StatementSource
    title: str
    text: str
    """Markdown; ends in a newline."""


class Issues(msgspec.Struct, frozen=True, kw_only=True):
    """What a tracker exported."""

    by_key: Mapping[str, Issue] = {}
    """By number or key."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read an export; GitHub's, GitLab's and Jira's names of fields are known.

        Raises:
            ISSUES_INVALID: the file is none.
        """
        return cls(by_key=_load(path))

    def find_statement(self, message: str, reference: bytes, *, title: str) -> FoundStatement:
        """The best draft there is: an issue that the message names, the message, the changelog, or none.

        Args:
            message: Of the commit.
            reference: The change without its tests.
            title: Where the source has none.
        """
        for number, key in _REFERENCES.findall(message):
            issue = self.by_key.get(number or key)
            if issue is not None and issue.body.strip():
                draft = build_statement_draft(f"{issue.title or title}\n\n{issue.body}")
                return FoundStatement(source="issue", title=draft.title, text=draft.text)
        return _find_in_change(message, reference, title)


def _load(path: Path) -> dict[str, Issue]:
    try:
        data = path.read_bytes()
        is_array = data.lstrip()[:1] == b"["
        entries = (
            msgspec.json.decode(data)
            if is_array
            else [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        )
    except (OSError, msgspec.DecodeError) as error:
        raise ISSUES_INVALID.error(f"{path}: expected issues as JSON, found: {error}") from error
    found = {}
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not (keys := _find_keys(entry)):
            raise ISSUES_INVALID.error(f"{path}: entry {number}: expected an issue with a number, found none")
        inner = entry.get("fields")
        fields = inner if isinstance(inner, dict) else entry
        issue = Issue(
            title=str(fields.get("title") or fields.get("summary") or ""),
            body=str(fields.get("body") or fields.get("description") or ""),
        )
        found.update(dict.fromkeys(keys, issue))
    return found


def _find_keys(entry: Mapping[str, Any]) -> list[str]:
    values = [entry.get(name) for name in ("number", "iid", "key")]
    return [str(value) for value in values if isinstance(value, int | str) and value != ""]


def _find_in_change(message: str, reference: bytes, title: str) -> FoundStatement:
    draft = build_statement_draft(message, title=title)
    body = draft.text.partition("\n\n")[2]
    if not draft.is_form and len(body.strip()) >= _LEAST_CHARACTERS:
        return FoundStatement(source="message", title=draft.title, text=draft.text)
    if hunk := _find_changelog(reference):
        return FoundStatement(source="changelog", title=title, text=f"# {title}\n\n{hunk}\n")
    return FoundStatement(source="person", title=title, text=build_statement_draft(title, title=title).text)


def _find_changelog(reference: bytes) -> str:
    try:
        files = scan_patch(reference)
    except AgentError:  # `patch-unreadable`
        return ""
    lines = [
        line.strip()
        for file in files
        if any(_CHANGELOG.search(path) for path in file.paths)
        for line in file.added
    ]
    text = "\n".join(line for line in lines if line)
    return text if len(text) >= _LEAST_CHARACTERS // 2 else ""
