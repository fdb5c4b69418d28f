"""From a payload object to validated builtins: msgspec constructors do not check, so this border does."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any, NoReturn

import msgspec

from repotrial._core.canonical import canonical_bytes
from repotrial._core.errors import ErrorCode, UsageError
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
