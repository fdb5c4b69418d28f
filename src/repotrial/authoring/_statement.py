"""First drafts of the statement: a form to fill, or what a commit message says about the problem."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from repotrial.authoring._text import clean_line, clean_text, shorten
from repotrial.contract import TaskKind

_MAX_TITLE = 200
_MAX_BODY_CHARACTERS = 20_000
_UNTITLED = "Untitled change"

# The instructions are comments: until they are replaced, lint calls the statement empty.
_FORM = """\
# {title}

## Expected

<!-- What users should get: one sentence for each behavior that must hold afterwards. -->

## Observed

<!-- What they get instead, with the exact output or error where there is one. -->

## How to see it

<!-- Steps or a few lines of code that show the difference. Describe the problem, not the change. -->
"""

_MERGE = re.compile(
    r"Merge (?:pull request #\d+|branch|branches|tag|commit|remote-tracking branch|MR|PR)\b", re.IGNORECASE
)
_PULL_REQUEST = re.compile(r"\s*\((?:#|GH-|!)\d+\)\s*$")
_CONVENTIONAL = re.compile(r"(?P<type>[a-z]{2,12})(?:\((?P<scope>[^()]{1,60})\))?(?P<breaking>!)?:\s+(?=\S)")
_CLOSING = (
    r"(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?|implement(?:s|ed)?"
    r"|re|refs?|references|see|see also|part of|issue)"
)
_ISSUE = (
    r"(?:(?:issue|bug|ticket)s?\s*)?(?:[\w.-]+/[\w.-]+)?(?:#|GH-)\d+"
    r"|https?://\S+|[A-Z][A-Z0-9]+-\d+|(?:issue|bug)\s\d+"
)
_CLOSING_LINE = re.compile(
    rf"[\s*\-(]*{_CLOSING}\s*:?\s+(?:{_ISSUE})(?:(?:\s*,\s*|\s+and\s+|\s+)(?:{_CLOSING}\s+)?(?:{_ISSUE}))*[\s.)]*",
    re.IGNORECASE,
)
_CLOSING_ASIDE = re.compile(rf"\s*[\[(]{_CLOSING}\s*:?\s+(?:{_ISSUE})[\])]", re.IGNORECASE)
_TRAILER = re.compile(
    r"(?:[A-Za-z][A-Za-z-]{0,30}-(?:by|to|on)|Cc|Change-Id|Commit-Id|Differential Revision|PiperOrigin-RevId|"
    r"git-svn-id|Link|Bugs?|Issues?|Tickets?|PR|PR-URL|Pull-Request|Fixes|Closes|Resolves|Refs?|Backport|"
    r"Release-Notes?|Changelog|Test Plan|Reviewers|Subscribers|BUG|TBR)\s*:\s.*",
    re.IGNORECASE,
)
_CHERRY_PICK = re.compile(r"\(cherry[- ]picked from commit [0-9a-f]+\)", re.IGNORECASE)

_KINDS: dict[str, TaskKind] = {
    "fix": "bug-fix",
    "bugfix": "bug-fix",
    "feat": "feature",
    "feature": "feature",
    "refactor": "refactor",
    "perf": "refactor",
    "docs": "documentation",
    "doc": "documentation",
    "deps": "dependency-upgrade",
}


class StatementDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What could be told to an agent, before a person has read it."""

    title: str
    text: str
    """Markdown; ends in a newline."""
    is_form: bool = False
    """Whether the message had no text for it, so that it is a form to fill."""
    is_shortened: bool = False
    """Whether the message was longer than a statement should be."""


def render_statement_form(title: str) -> str:
    """A statement with its parts named, for the author to fill."""
    return _FORM.format(title=title)


def build_statement_draft(message: str, *, title: str | None = None) -> StatementDraft:
    """A commit message as a statement: without trailers, issue references and anything that is not text.

    A message that is no more than a subject gives the title of a form.
    """
    lines = [line.rstrip() for line in clean_text(message[: 4 * _MAX_BODY_CHARACTERS]).split("\n")]
    subject, body = _split(lines)
    chosen = title or shorten(_clean_subject(subject), _MAX_TITLE) or _UNTITLED
    prose = "\n".join(_iter_prose(body)).strip("\n")
    is_shortened = len(prose) > _MAX_BODY_CHARACTERS or len(message) > 4 * _MAX_BODY_CHARACTERS
    shown = shorten(prose, _MAX_BODY_CHARACTERS)
    text = f"# {chosen}\n\n{shown}\n" if prose else render_statement_form(chosen)
    return StatementDraft(title=chosen, text=text, is_form=not prose, is_shortened=is_shortened)


def guess_kind(message: str) -> tuple[TaskKind, str]:
    """The kind of change that a conventional-commit prefix announces, and where the guess comes from."""
    subject, _ = _split(clean_text(message[:2000]).split("\n"))
    prefix = _CONVENTIONAL.match(subject)
    if prefix is None:
        return "bug-fix", "the most common kind"
    if prefix["type"] in {"build", "chore"} and prefix["scope"] in {"deps", "deps-dev"}:
        return "dependency-upgrade", f"the commit message begins with {prefix[0].strip()!r}"
    kind = _KINDS.get(prefix["type"])
    if kind is None:
        return "bug-fix", "the most common kind"
    return kind, f"the commit message begins with {prefix[0].strip()!r}"


def _split(lines: list[str]) -> tuple[str, list[str]]:
    """The subject and the rest; a merge's own subject says nothing about the problem."""
    rest = list(lines)
    while rest:
        subject = rest.pop(0).strip()
        if subject and not (_MERGE.match(subject) and any(line.strip() for line in rest)):
            return subject, rest
    return "", []


def _clean_subject(subject: str) -> str:
    subject = _CLOSING_ASIDE.sub("", _PULL_REQUEST.sub("", clean_line(subject)))
    prefix = _CONVENTIONAL.match(subject)
    return subject[prefix.end() :] if prefix else subject


def _iter_prose(lines: list[str]) -> Iterator[str]:
    """The lines that speak to people, with single blank lines between paragraphs."""
    is_trailer = False
    is_blank = True
    for line in lines:
        is_continued = is_trailer and line[:1] in {" ", "\t"}
        is_trailer = is_continued or _is_bookkeeping(line)
        if is_trailer or (is_blank and not line):
            continue
        is_blank = not line
        yield _CLOSING_ASIDE.sub("", line)


def _is_bookkeeping(line: str) -> bool:
    # The bound keeps the patterns' work small; no trailer is longer.
    if not line or len(line) > 1000:  # noqa: PLR2004
        return False
    return any(
        pattern.fullmatch(line.strip()) is not None for pattern in (_TRAILER, _CLOSING_LINE, _CHERRY_PICK)
    )
