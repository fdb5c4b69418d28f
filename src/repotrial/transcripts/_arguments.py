"""Arguments of a call as they are compared: what they say, and not how they are written.

Agents write arguments into their transcripts that the model left out. One that is null, false or empty says
nothing, and neither does one that is what the tool's schema declares for that case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial.transcripts._json import decode_leniently, encode_value
from repotrial.transcripts._model import Arguments

Defaults: TypeAlias = Mapping[str, object]
"""What a tool takes for an argument that is left out, by the argument's place: `limit`, `edits[].all`."""

_MAX_LEVELS: Final = 6
_MAX_SCHEMA_BYTES: Final = 64 * 1024
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_NONE: Final[Defaults] = {}


def digest_arguments(arguments: Arguments | bytes, defaults: Defaults = _NONE) -> Digest:
    """Digest of a call's arguments, whatever the key order, the white space and the spelling of numbers.

    Members that say nothing do not count. Where a default is declared, it alone says nothing: there, even
    `false` is a word.
    """
    data = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else arguments
    value = decode_leniently(data) if isinstance(data, bytes) else data
    try:
        return digest_bytes(msgspec.json.encode(_plain(value, "", defaults), order="deterministic"))
    except RecursionError:
        return digest_bytes(encode_value(arguments))


def find_defaults(schema: bytes) -> Defaults:
    """The defaults that a tool's schema declares.

    The agent under trial wrote the schema, so that a default in free text is not believed: it could hide a
    whole command. Numbers, truth values and declared choices of one word are.
    """
    return _find_defaults(schema) if len(schema) <= _MAX_SCHEMA_BYTES else _NONE


@lru_cache(maxsize=128)
def _find_defaults(schema: bytes) -> Defaults:
    return dict(_iter_defaults(decode_leniently(schema), "", _MAX_LEVELS))


def _iter_defaults(schema: object, place: str, levels: int) -> Iterator[tuple[str, object]]:
    if not isinstance(schema, dict) or levels <= 0:
        return
    default = schema.get("default")
    choices = schema.get("enum")
    is_word = isinstance(default, str) and _WORD.fullmatch(default) is not None
    is_choice = is_word and isinstance(choices, list) and default in choices
    if place and (is_choice or isinstance(default, bool | int | float)):
        yield place, _plain(default, place, _NONE)
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield from _iter_defaults(inner, _below(place, str(name)), levels - 1)
    yield from _iter_defaults(schema.get("items"), f"{place}[]", levels - 1)


def _plain(value: object, place: str, defaults: Defaults) -> object:
    """Without what says nothing, and with numbers as JavaScript would write them again: `1.0` is `1`."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            members = {key: _plain(item, _below(place, key), defaults) for key, item in value.items()}
            return {key: item for key, item in members.items() if _speaks(item, _below(place, key), defaults)}
        case list():
            return [_plain(item, f"{place}[]", defaults) for item in value]
        case _:
            return value


def _speaks(value: object, place: str, defaults: Defaults) -> bool:
    if place in defaults:
        default = defaults[place]
        return type(value) is not type(default) or value != default
    return not (value is None or value is False or value in ("", [], {}))


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
