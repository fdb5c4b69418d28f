"""JSON of strangers, read one level at a time: what is not looked into keeps its exact bytes."""

from __future__ import annotations

import re
from typing import Final, TypeAlias, TypeVar

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER

Members: TypeAlias = dict[str, msgspec.Raw]
"""An object whose values are not yet looked into."""

ValueT = TypeVar("ValueT")

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
# `null` is as frequent in streams as values are, and an exception for each would cost more than all the rest.
_MEMBERS_OR_NULL: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ITEMS_OR_NULL: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_TEXT: Final = msgspec.json.Decoder(str | None)
_INTEGER: Final = msgspec.json.Decoder(int | None)
_FLAG: Final = msgspec.json.Decoder(bool | None)

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Any escape; the group is half of a surrogate pair that stands alone."""


class UnreadableJsonError(ValueError):
    """Bytes are not the JSON value that was looked for; never leaves this package."""


def check_text(data: bytes) -> bytes:
    """The same bytes: values that are not read are not decoded, but must still be text.

    Raises:
        UnreadableJsonError: they are not UTF-8.
    """
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableJsonError(str(error)) from error
    return data


def read_members(data: bytes | msgspec.Raw) -> Members:
    """The members of an object.

    Raises:
        UnreadableJsonError: it is no object, no JSON, no UTF-8, or nested too deep.
    """
    return _decode(_MEMBERS, data)


def read_items(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The items of a list.

    Raises:
        UnreadableJsonError: as for `read_members`.
    """
    return _decode(_ITEMS, data)


def find_members(data: msgspec.Raw | None) -> Members | None:
    return _find(_MEMBERS_OR_NULL, data)


def find_items(data: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    return _find(_ITEMS_OR_NULL, data)


def find_text(data: msgspec.Raw | None) -> str | None:
    return _find(_TEXT, data)


def find_flag(data: msgspec.Raw | None) -> bool | None:
    return _find(_FLAG, data)


def find_count(data: msgspec.Raw | None) -> int | None:
    """A quantity; None if there is none, or one that cannot be."""
    value = _find(_INTEGER, data)
    return value if value is not None and 0 <= value <= MAX_SAFE_INTEGER else None


def is_null(data: msgspec.Raw | None) -> bool:
    """Whether a member is absent or says `null`."""
    return data is None or bytes(data) == b"null"


def _find(decoder: msgspec.json.Decoder[ValueT | None], data: msgspec.Raw | None) -> ValueT | None:
    if data is None:
        return None
    try:
        return _decode(decoder, data)
    except UnreadableJsonError:
        return None


def _decode(decoder: msgspec.json.Decoder[ValueT], data: bytes | msgspec.Raw) -> ValueT:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnreadableJsonError(str(error)) from error
    except msgspec.DecodeError as error:
        # Programs that cut strings by UTF-16 units leave half a pair behind, and JSON allows to write it.
        repaired = _ESCAPE.sub(_repair, bytes(data))
        if repaired == bytes(data):
            raise UnreadableJsonError(str(error)) from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise UnreadableJsonError(str(error)) from error
    try:
        return decoder.decode(repaired)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableJsonError(str(error)) from error


def _repair(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if match[1] else match[0]
