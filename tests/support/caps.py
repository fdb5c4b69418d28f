"""Parts of pages and of texts that name a cap without the words that must stand with it (Q10)."""

from __future__ import annotations

import re
from html import unescape

_CAP = re.compile(r"(?<![\w./-])(?:caps?|ceilings?|[a-z]+-cap|run-limit|time limit)(?![\w/])", re.IGNORECASE)
_LABELS = ("policy choice", "choice of policy")


def find_unlabeled_caps(text: str) -> list[str]:
    """Each part that names a cap and does not call it a policy choice: sections of a page, else of a text.

    What others wrote (a briefing, a conversation, an output) is not searched: it stands in `<pre>`, turns
    and rows of events.
    """
    parts = (
        _split_page(text)
        if text.startswith("<!DOCTYPE html>")
        else re.split(r"^#{1,2} ", text, flags=re.MULTILINE)
    )
    return [
        f"{found[0]}: …{part[max(0, found.start() - 80) : found.end() + 80]}…"
        for part in parts
        if (found := _CAP.search(part)) and not any(label in " ".join(part.split()) for label in _LABELS)
    ]


def _split_page(page: str) -> list[str]:
    bare = re.sub(r"<(style|script|pre)\b.*?</\1>", "", page, flags=re.DOTALL)
    bare = re.sub(r'<li class="turn .*?</li>|<tr id="e\d+".*?</tr>', "", bare, flags=re.DOTALL)
    parts = re.split(r"<section\b", bare)
    return [unescape(re.sub(r"<[^>]*>", " ", part)) for part in parts]
