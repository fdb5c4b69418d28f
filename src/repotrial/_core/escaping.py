"""Bytes as text, without loss: how names of files, arguments and tests are written in documents."""

from __future__ import annotations

import re

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
