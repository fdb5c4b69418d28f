"""An agent's own record against the wire's: what one has and the other has not. An alert, never a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TypeAlias, TypeVar

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial.trace._payloads.dialogue import Usage
from repotrial.trace.importers._json import decode_leniently, encode_value
from repotrial.trace.importers._model import Arguments, ImportedTranscript
from repotrial.trace.importers._registry import IMPORTERS

__all__ = [
    "CallDiffers",
    "CallNotInTranscript",
    "CallNotOnWire",
    "CostDiffers",
    "Disagreement",
    "GatewayCall",
    "TokensDiffer",
    "compare_with_gateway",
    "digest_arguments",
]

_Key = TypeVar("_Key", bound=Hashable)


class GatewayCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the gateway saw."""

    call_id: str | None
    """Its id on the wire; null where the dialect has none."""
    name: str
    """The tool."""
    arguments_digest: Digest
    """See `digest_arguments`."""


class _Disagreement(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    pass


class CallNotOnWire(_Disagreement, frozen=True, kw_only=True, tag="call-not-on-wire"):
    """The agent says it used a tool that no model asked for."""

    order: Count
    """Number of the call in the transcript."""
    call_id: str | None
    """Its id there."""
    name: str
    """The tool."""


class CallNotInTranscript(_Disagreement, frozen=True, kw_only=True, tag="call-not-in-transcript"):
    """A model asked for a tool, and the agent does not say so."""

    call_id: str | None
    """Its id on the wire."""
    name: str
    """The tool."""


class CallDiffers(_Disagreement, frozen=True, kw_only=True, tag="call-differs"):
    """Both have the call, with another tool or other arguments."""

    call_id: str
    """Its id."""
    in_transcript: str
    """The tool in the transcript, followed by the digest of its arguments."""
    on_wire: str
    """The same on the wire."""


class TokensDiffer(_Disagreement, frozen=True, kw_only=True, tag="tokens-differ"):
    """The agent counts other tokens than the wire."""

    part: str
    """Which tokens."""
    in_transcript: Count
    """As the agent counts them."""
    on_wire: Count
    """As metered."""


class CostDiffers(_Disagreement, frozen=True, kw_only=True, tag="cost-differs"):
    """The agent believes in another price; ours counts."""

    in_transcript: str
    """What the agent says, in dollars."""
    on_wire: str
    """What was metered, in dollars."""


Disagreement: TypeAlias = CallNotOnWire | CallNotInTranscript | CallDiffers | TokensDiffer | CostDiffers


def digest_arguments(arguments: Arguments | bytes) -> Digest:
    """Digest of a call's arguments, whatever the key order, the white space and the spelling of numbers.

    Arguments that are null or false count as not given: agents write such defaults into their transcripts.
    """
    data = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else arguments
    value = decode_leniently(data) if isinstance(data, bytes) else data
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if item is not None and item is not False}
    try:
        return digest_bytes(msgspec.json.encode(_plain(value), order="deterministic"))
    except RecursionError:
        return digest_bytes(encode_value(arguments))


def _plain(value: object) -> object:
    """Numbers as JavaScript would write them again: `1.0` is `1`."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value


def compare_with_gateway(
    imported: ImportedTranscript,
    calls: Iterable[GatewayCall],
    *,
    usage: Usage | None = None,
    cost_usd: str | None = None,
) -> tuple[Disagreement, ...]:
    """What the transcript and the wire do not agree on.

    Calls are matched by id, then by tool and arguments. Formats that tell calls in the agent's own words are
    compared by tokens and cost alone. What one side leaves open is no disagreement.
    """
    importer = IMPORTERS.get(imported.format)
    found: list[Disagreement] = []
    if importer is None or importer.calls == "wire":
        found.extend(_compare_calls(imported, list(calls)))
    if usage is not None:
        found.extend(_compare_tokens(imported, usage))
    claimed = imported.totals.cost_usd
    if cost_usd is not None and claimed is not None and Decimal(claimed) != Decimal(cost_usd):
        found.append(CostDiffers(in_transcript=claimed, on_wire=cost_usd))
    return tuple(found)


def _compare_calls(imported: ImportedTranscript, wire: list[GatewayCall]) -> Iterator[Disagreement]:
    ours = [(call, digest_arguments(call.arguments)) for call in imported.calls]
    left = dict(enumerate(wire))
    rest = []
    by_id = _group(left, lambda seen: seen.call_id)
    for call, digest in ours:
        candidates = by_id.get(call.call_id, []) if call.call_id else []
        if not candidates:
            rest.append((call, digest))
            continue
        # Ids can repeat in a run; the one that says the same is the one.
        index = next((i for i in candidates if _content(left[i]) == (call.name, digest)), candidates[0])
        candidates.remove(index)
        partner = left.pop(index)
        if _content(partner) != (call.name, digest):
            yield CallDiffers(
                call_id=call.call_id or "",
                in_transcript=f"{call.name} {digest}",
                on_wire=f"{partner.name} {partner.arguments_digest}",
            )
    by_content = _group(left, _content)
    for call, digest in rest:
        partners = by_content.get((call.name, digest))
        if partners:
            del left[partners.pop(0)]
        else:
            yield CallNotOnWire(order=call.order, call_id=call.call_id, name=call.name)
    for seen in left.values():
        yield CallNotInTranscript(call_id=seen.call_id, name=seen.name)


def _content(call: GatewayCall) -> tuple[str, str]:
    return call.name, call.arguments_digest


def _group(calls: Mapping[int, GatewayCall], key: Callable[[GatewayCall], _Key]) -> dict[_Key, list[int]]:
    groups: dict[_Key, list[int]] = defaultdict(list)
    for index, call in calls.items():
        groups[key(call)].append(index)
    return groups


def _compare_tokens(imported: ImportedTranscript, wire: Usage) -> Iterator[Disagreement]:
    """The agent's own total; where it gives none, the sum over its messages must not exceed the wire's.

    Messages are often not all: titles and summaries are asked for on the side.
    """
    has_total = imported.totals.usage != Usage()
    claims = imported.totals.usage if has_total else imported.total_usage
    for part in ("request_input_tokens", "cache_read_tokens", "output_tokens"):
        claimed, metered = getattr(claims, part), getattr(wire, part)
        if claimed is None or metered is None:
            continue
        if claimed > metered or (has_total and claimed != metered):
            yield TokensDiffer(part=part, in_transcript=claimed, on_wire=metered)
