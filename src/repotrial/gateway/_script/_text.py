"""Turns for agents without tools: edits as blocks in the text, by what the request shows of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from repotrial.gateway._script._arguments import fill_schema
from repotrial.gateway._script._script import EditStep, FinishStep, ReadStep, Script, WriteStep
from repotrial.wire import WireRequest, find_answer_schema, read_message_text

_SIDE_TEXT: Final = "Scripted run"
"""For requests without tools: titles, names of sessions."""

_BLOCKS: Final = "SEARCH/REPLACE"
"""Agents without tools ask for blocks of this name in the text."""

_FENCE: Final = re.compile(r"(`{3,})[^`\n]*|<(\w+)>")
"""What stands around a file that is shown."""


def plan_text(script: Script, request: WireRequest) -> str:
    """What is said where no tool may be called."""
    schema = find_answer_schema(request)
    if schema is not None:
        return msgspec.json.encode(fill_schema(schema)).decode()
    texts = [(message.role, read_message_text(message)) for message in request.messages]
    if not any(_BLOCKS in text for _, text in texts):
        return _SIDE_TEXT
    said = [text for role, text in texts if role == "assistant"]
    shown = "\n".join(text for role, text in texts if role != "assistant")
    asking = _ask_for_files(script, shown)
    if asking and not any(asking in text for text in said):
        return asking
    finish = next((step.text for step in script.steps if isinstance(step, FinishStep)), FinishStep().text)
    # A block that stands in what was said before is done, whatever the files look like by now.
    changes = [step for step in script.steps if isinstance(step, EditStep | WriteStep)]
    is_done = any(_is_said(changes, text) for text in said)
    blocks = "\n".join(_build_block(step, shown) for step in changes)
    return finish if is_done or not blocks else blocks


def _ask_for_files(script: Script, shown: str) -> str:
    """Files have to be seen before they can be replaced as a whole; an agent shows those that are named."""
    read: set[str] = set()
    wanted: list[str] = []
    for step in script.steps:
        if isinstance(step, ReadStep | EditStep):
            read.add(step.path)
        elif isinstance(step, WriteStep) and step.path in read and _find_file(step.path, shown) is None:
            wanted.append(step.path)
    return f"Show me {' and '.join(dict.fromkeys(wanted))} first." if wanted else ""


def _is_said(changes: Sequence[EditStep | WriteStep], text: str) -> bool:
    news = [_join(step.new if isinstance(step, EditStep) else step.content) for step in changes]
    return bool(news) and all(f"=======\n{new}>>>>>>> REPLACE" in text for new in news)


def _build_block(step: EditStep | WriteStep, shown: str) -> str:
    old = step.old if isinstance(step, EditStep) else _find_file(step.path, shown) or ""
    new = step.new if isinstance(step, EditStep) else step.content
    fence = "```"
    return (
        f"{step.path}\n{fence}\n<<<<<<< SEARCH\n{_join(old)}=======\n{_join(new)}>>>>>>> REPLACE\n{fence}\n"
    )


def _find_file(path: str, shown: str) -> str | None:
    """The content of a file that stands in the request below its name, between fences; the last of them."""
    found = None
    for content in _iter_fenced(path, shown):
        found = content
    return found


def _iter_fenced(path: str, shown: str) -> Iterator[str]:
    for place in re.finditer(rf"^{re.escape(path)}\n", shown, re.MULTILINE):
        opening = _FENCE.match(shown, place.end())
        if opening is None or shown[opening.end() : opening.end() + 1] != "\n":
            continue
        closing = opening[1] or f"</{opening[2]}>"
        start = opening.end() + 1
        end = re.compile(rf"^{re.escape(closing)}$", re.MULTILINE).search(shown, start)
        if end is not None:
            yield shown[start : end.start()]


def _join(text: str) -> str:
    """Whole lines."""
    return text if not text or text.endswith("\n") else text + "\n"
