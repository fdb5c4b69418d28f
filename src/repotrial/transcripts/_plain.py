"""Agents that keep no structured record: aider's chat file and the final answer of Continue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repotrial.transcripts._draft import Origin, TranscriptDraft
from repotrial.transcripts._values import Fields, as_text

_STARTED = "# aider chat started at "
_FAILED = re.compile(r"(?:litellm|openai|anthropic)\.\w*Error")
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


def read_aider(text: str, draft: TranscriptDraft) -> None:
    """Headings are the user, quotes are aider, the rest is the model; its edit blocks count as calls.

    The figures that aider prints are rounded to hundreds, so none is taken.
    """
    reader = _AiderReader(draft)
    for line in text.split("\n"):
        reader.read_line(line.rstrip("\r").removesuffix("  "))
    reader.flush()


class _AiderReader:
    def __init__(self, draft: TranscriptDraft) -> None:
        self._draft = draft
        self._said: list[str] = []
        self._asked: list[str] = []

    def read_line(self, line: str) -> None:
        self._draft.entries += bool(line)
        if line.startswith("#### "):
            self._flush_answer()
            self._asked.append(line[5:])
        elif line.startswith("> "):
            self.flush()
            self._read_note(line[2:])
        elif line.startswith(_STARTED):
            self.flush()
            self._draft.see(session=line.removeprefix(_STARTED))
        else:
            self._flush_question()
            self._said.append(line)

    def flush(self) -> None:
        self._flush_question()
        self._flush_answer()

    def _read_note(self, note: str) -> None:
        draft = self._draft
        if note.startswith("Aider v"):
            draft.see(version=note.removeprefix("Aider v"))
        elif note.startswith(("Model: ", "Main model: ")):
            draft.see(model=note.partition(": ")[2].partition(" with ")[0])
        elif note.startswith("Applied edit to "):
            draft.mark_call(_edit_id(note.removeprefix("Applied edit to ")), is_error=False)
        elif _FAILED.match(note):
            draft.state("error", word="error", text=note)

    def _flush_question(self) -> None:
        self._draft.add_message("user", text="\n".join(self._asked), origin=Origin())
        self._asked.clear()

    def _flush_answer(self) -> None:
        lines, self._said = self._said, []
        text = "\n".join(lines).strip()
        if not text:
            return
        self._draft.add_message("assistant", text=text, origin=Origin())
        for path, search, replace in _iter_edits(lines):
            arguments = {"path": path, "search": search, "replace": replace}
            self._draft.add_call(_edit_id(path), "edit", arguments, Origin())


def _edit_id(path: str) -> str:
    """Edits have no ids; aider says of a file whether the latest one was applied."""
    return f"edit:{path}"


def _iter_edits(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Blocks of a path, a fence, the text to find and the text to put there."""
    path, search, replace = "", list[str](), list[str]()
    target: list[str] | None = None
    for number, line in enumerate(lines):
        if line == _SEARCH:
            path, search, replace = lines[max(number - 2, 0)].strip(), [], []
            target = search
        elif line == _DIVIDER and target is search:
            target = replace
        elif line == _REPLACE and target is replace:
            yield path, "\n".join(search), "\n".join(replace)
            target = None
        elif target is not None:
            target.append(line)


def read_continue(document: Fields, draft: TranscriptDraft) -> None:
    """`cn -p --format json`: a final text and a status, nothing else."""
    text, status = as_text(document.get("response")) or "", as_text(document.get("status"))
    draft.add_message("assistant", text=text, origin=Origin())
    if status is None:
        draft.skip("wrong-type")
        return
    draft.state("success" if status == "success" else "error", word=status, text=text)
