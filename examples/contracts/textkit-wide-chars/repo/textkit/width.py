"""How many columns of a terminal a text takes."""

import unicodedata

_WIDE = frozenset({"W", "F"})


def char_width(char: str) -> int:
    """Columns of one character; ambiguous ones count as narrow."""
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def display_width(text: str) -> int:
    """Columns of a whole text on one line."""
    # Most text is ASCII, and for that the answer is known without looking at each character.
    if text.isascii():
        return len(text)
    return sum(char_width(char) for char in text)


def clip(text: str, width: int) -> str:
    """The longest beginning of `text` that takes at most `width` columns."""
    used = 0
    for position, char in enumerate(text):
        used += char_width(char)
        if used > width:
            return text[:position]
    return text


def pad(text: str, width: int, align: str = "<") -> str:
    """Fill up with spaces to `width` columns: `<` left, `>` right, `^` centered; never cuts."""
    missing = max(0, width - display_width(text))
    if align == "<":
        return text + " " * missing
    if align == ">":
        return " " * missing + text
    if align == "^":
        left = missing // 2
        return " " * left + text + " " * (missing - left)
    raise ValueError(f"align must be one of '<', '>' and '^', not {align!r}")
