"""Names as text: without loss, as documents write them, and in the form in which they are compared."""

from __future__ import annotations

import re
from typing import Final

_OTHER_CHARACTERS: Final = re.compile(r"[^a-z0-9]+")


def normalize_name(name: str) -> str:
    """Lower-case words joined by single dashes; empty if there is no ASCII letter or digit.

    Names that differ only in case and in what joins their parts are the same: `owner__Repo-12` and
    `owner-repo-12`.
    """
    return _OTHER_CHARACTERS.sub("-", name.casefold()).strip("-")


_ESCAPE = re.compile(r"\\(?:\\|x[0-9a-f]{2})")


def escape_bytes(raw: bytes) -> str:
    r"""Names of files, arguments and tests as text, without loss: bytes that are not UTF-8 become `\xNN`.

    A backslash is doubled, so that no two names have the same text.
    """
    return escape_text(raw.decode("utf-8", "surrogateescape"))


def escape_text(text: str) -> str:
    r"""The same for text that Python holds: lone surrogates (undecodable bytes among them) become `\xNN`."""
    text = text.replace("\\", "\\\\")
    try:
        text.encode()
    except UnicodeEncodeError:
        raw = (
            text.encode("utf-8", "surrogateescape")
            if _is_escaped(text)
            else text.encode("utf-8", "surrogatepass")
        )
        return raw.decode("utf-8", "backslashreplace")
    return text


def _is_escaped(text: str) -> bool:
    return not any("\ud800" <= character < "\udc80" or "\udcff" < character <= "\udfff" for character in text)


def unescape_text(text: str) -> bytes:
    """The bytes that `escape_bytes` was given."""

    def restore(match: re.Match[str]) -> str:
        found = match.group()
        return "\\" if found == "\\\\" else chr(0xDC00 + bytes.fromhex(found[2:])[0])

    return _ESCAPE.sub(restore, text).encode("utf-8", "surrogateescape")
