"""From a payload object to builtins that are validated and redacted.

msgspec constructors do not check types, so this border does. Every free text passes the redactor; ids,
digests and enumerations do not. Which fields are free text follows from their types: text without a pattern.
A secret that happens to be spelled like an enumeration's value must not make an event invalid.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn, TypeAlias

import msgspec

from repotrial._core.canonical import canonical_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.redaction import Redactor
from repotrial.trace._body import BinaryBody, BlobBody, OmittedBody, TextBody, WithdrawnBody
from repotrial.trace._payloads import PAYLOAD_TYPES
from repotrial.trace._payloads.common import EventPayload

# Left as they are, so that `convert` refuses them in a text field instead of storing them in some spelling.
_FOREIGN = (
    bytes,
    bytearray,
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
_KNOWN = frozenset(PAYLOAD_TYPES.values())


PAYLOAD_REFUSED = ErrorCode(
    "payload-refused",
    UsageError,
    "An event's payload does not fit its type, or has no canonical form. The trace is unchanged.",
    hint="make bodies with the writer; write names that are not UTF-8 with escape_bytes",
)


def build_tree(payload: EventPayload) -> dict[str, Any]:
    """The payload as JSON builtins, every field checked against its type.

    Raises:
        PAYLOAD_REFUSED: it does not fit; the message names the field.
    """
    kind = type(payload)
    if kind not in _KNOWN:
        raise PAYLOAD_REFUSED.error(f"expected a payload of the trace, found {kind.__name__}")
    try:
        tree: dict[str, Any] = msgspec.to_builtins(payload, builtin_types=_FOREIGN)
        msgspec.convert(tree, kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:  # ValidationError ends in `$.field`
        raise PAYLOAD_REFUSED.error(f"{kind.event_type}: {error}") from error
    return tree


def explain_refusal(event_type: str, tree: dict[str, Any], cause: Exception) -> NoReturn:
    """Say which field has no canonical form, after the serializer has refused the whole.

    Raises:
        PAYLOAD_REFUSED: always.
    """
    try:
        canonical_bytes(tree)
    except UsageError as error:  # `not-canonical`
        raise PAYLOAD_REFUSED.error(f"{event_type}: {error.message}") from cause
    raise PAYLOAD_REFUSED.error(f"{event_type}: {cause}") from cause


_Rewrite: TypeAlias = Callable[[Any, Redactor], Any]


def redact_tree(tree: dict[str, Any], kind: type[EventPayload], redactor: Redactor) -> dict[str, Any]:
    """The tree of a payload of that kind, with placeholders in its free texts.

    Raises:
        PAYLOAD_REFUSED: an inline body holds what should have been redacted; the writer did not make it.
    """
    rewrite = _rewrite_of(kind)
    result: dict[str, Any] = tree if rewrite is None else rewrite(tree, redactor)
    return result


@cache
def _rewrite_of(kind: type[msgspec.Struct]) -> _Rewrite | None:
    return _build(msgspec.inspect.type_info(kind))


def _build(info: msgspec.inspect.Type) -> _Rewrite | None:
    match info:
        case msgspec.inspect.StrType(pattern=None):
            return _redact_text
        case msgspec.inspect.StructType():
            return _build_struct(info)
        case msgspec.inspect.VarTupleType(item_type=item) if (rewrite := _build(item)) is not None:
            return _each(rewrite)
        case msgspec.inspect.UnionType():
            return _build_union(info)
        case _:
            return None


def _build_struct(info: msgspec.inspect.StructType) -> _Rewrite | None:
    if info.cls is TextBody:
        return _check_inline
    if info.cls in {BinaryBody, BlobBody, OmittedBody, WithdrawnBody}:
        return None
    found = {field.encode_name: _build(field.type) for field in info.fields}
    members = {name: rewrite for name, rewrite in found.items() if rewrite is not None}

    def rewrite_struct(tree: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
        changed = {name: rewrite(tree[name], redactor) for name, rewrite in members.items()}
        return {**tree, **changed}

    return rewrite_struct if members else None


def _build_union(info: msgspec.inspect.UnionType) -> _Rewrite | None:
    structs = [member for member in info.types if isinstance(member, msgspec.inspect.StructType)]
    by_tag = {member.tag: _build(member) for member in structs}
    tag_field = next((member.tag_field for member in structs), None)
    plain = [rewrite for member in info.types if member not in structs and (rewrite := _build(member))]

    def rewrite_union(value: Any, redactor: Redactor) -> Any:
        if isinstance(value, dict):
            rewrite = by_tag.get(value[tag_field] if tag_field else None)
            return value if rewrite is None else rewrite(value, redactor)
        if isinstance(value, str) and plain:
            return plain[0](value, redactor)
        return value

    return rewrite_union if plain or any(by_tag.values()) else None


def _each(rewrite: _Rewrite) -> _Rewrite:
    def rewrite_items(items: Any, redactor: Redactor) -> Any:
        return [rewrite(item, redactor) for item in items]

    return rewrite_items


def _redact_text(text: str, redactor: Redactor) -> str:
    return redactor.redact(text).text


def _check_inline(body: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    # Redaction is idempotent, so a body that the writer made passes unchanged.
    if redactor.redact(body["text"]).text != body["text"]:
        raise PAYLOAD_REFUSED.error(
            "expected bodies made by this writer, found one that redaction would change"
        )
    return body
