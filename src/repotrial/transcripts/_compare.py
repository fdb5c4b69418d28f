"""An agent's own record against the wire's: what one has and the other has not. An alert, never a verdict."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, Self, TypeAlias, TypeVar

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial.trace import ResponseUsage
from repotrial.transcripts._model import Arguments, ImportedCall, ImportedTranscript
from repotrial.transcripts._registry import IMPORTERS
from repotrial.transcripts._values import decode_leniently, encode_value

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


_Key = TypeVar("_Key", bound=Hashable)

_FLOAT_NOISE: Final = Decimal("1e-9")
"""Of a sum: far more than adding doubles loses, and too little to be a price."""
_LEAST_PLACES: Final = 2
"""Prices are rounded to cents at most; zeros at the end are often not shown."""


class GatewayCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the gateway saw."""

    call_id: str | None
    """Its id on the wire; None if the dialect has none."""
    name: str
    """The tool."""
    arguments_digest: Digest
    """See `digest_arguments`; with these defaults."""
    defaults: Defaults = {}
    """What the tool takes for arguments that are left out; see `find_defaults`."""

    @classmethod
    def build(cls, call_id: str | None, name: str, arguments: bytes, *, schema: bytes = b"") -> Self:
        """A call with these arguments (JSON) of a tool with this JSON schema."""
        defaults = find_defaults(schema)
        digest = digest_arguments(arguments, defaults)
        return cls(call_id=call_id, name=name, arguments_digest=digest, defaults=defaults)


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


def compare_with_gateway(
    imported: ImportedTranscript,
    calls: Iterable[GatewayCall],
    *,
    usage: ResponseUsage | None = None,
    side_usage: ResponseUsage | None = None,
    cost_usd: str | None = None,
) -> tuple[Disagreement, ...]:
    """What the transcript and the wire do not agree on.

    Calls are matched by id, then by tool and arguments. Formats that tell calls in the agent's own words are
    compared by tokens and cost alone. What one side leaves open is no disagreement. What an agent kept to
    itself comes first, and what it made up last, of which it can make up any number.

    Args:
        imported: What the agent says.
        calls: Tools that models asked for, in order.
        usage: What all answers together consumed.
        side_usage: The part of it for requests that offered no tools, such as titles: agents leave it out.
        cost_usd: What was metered, in dollars.
    """
    importer = IMPORTERS.get(imported.format)
    found: list[Disagreement] = []
    if importer is None or importer.calls == "wire":
        found.extend(_compare_calls(imported, list(calls)))
    if usage is not None:
        found.extend(_compare_tokens(imported, usage, side_usage or ResponseUsage()))
    claimed = imported.totals.cost_usd
    if cost_usd is not None and claimed is not None and not _is_rounded(Decimal(claimed), Decimal(cost_usd)):
        found.append(CostDiffers(in_transcript=claimed, on_wire=cost_usd))
    return tuple(sorted(found, key=_rank))


def _rank(disagreement: Disagreement) -> int:
    match disagreement:
        case CallNotInTranscript():
            return 0
        case CallNotOnWire():
            return 2
        case _:
            return 1


def _is_rounded(claimed: Decimal, metered: Decimal) -> bool:
    """Whether two sums differ by rounding alone: of binary fractions, or to the places that are shown.

    Agents that know no price say 0, which is no statement at all.
    """
    if not claimed:
        return True
    exponent = claimed.as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    shown = Decimal(5).scaleb(-max(places, _LEAST_PLACES) - 1)
    return abs(claimed - metered) <= max(shown, abs(metered) * _FLOAT_NOISE)


def _compare_calls(imported: ImportedTranscript, wire: list[GatewayCall]) -> Iterator[Disagreement]:
    left = dict(enumerate(wire))
    rest = []
    by_id = _group(left, lambda seen: seen.call_id)
    for call in imported.calls:
        candidates = by_id.get(call.call_id, []) if call.call_id else []
        if not candidates:
            rest.append(call)
            continue
        # Ids can repeat in a run; the one that says the same is the one.
        index = next((i for i in candidates if _is_same(call, left[i])), candidates[0])
        candidates.remove(index)
        partner = left.pop(index)
        if not _is_same(call, partner):
            digest = digest_arguments(call.arguments, partner.defaults)
            yield CallDiffers(
                call_id=call.call_id or "",
                in_transcript=f"{call.name} {digest}",
                on_wire=f"{partner.name} {partner.arguments_digest}",
            )
    yield from _match_by_content(rest, left)


def _match_by_content(calls: Iterable[ImportedCall], left: dict[int, GatewayCall]) -> Iterator[Disagreement]:
    defaults = {seen.name: seen.defaults for seen in left.values()}
    by_content = _group(left, _content)
    for call in calls:
        digest = digest_arguments(call.arguments, defaults.get(call.name, {}))
        partners = by_content.get((call.name, digest))
        if partners:
            del left[partners.pop(0)]
        else:
            yield CallNotOnWire(order=call.order, call_id=call.call_id, name=call.name)
    for seen in left.values():
        yield CallNotInTranscript(call_id=seen.call_id, name=seen.name)


def _is_same(call: ImportedCall, seen: GatewayCall) -> bool:
    return _content(seen) == (call.name, digest_arguments(call.arguments, seen.defaults))


def _content(call: GatewayCall) -> tuple[str, str]:
    return call.name, call.arguments_digest


def _group(calls: Mapping[int, GatewayCall], key: Callable[[GatewayCall], _Key]) -> dict[_Key, list[int]]:
    groups: dict[_Key, list[int]] = defaultdict(list)
    for index, call in calls.items():
        groups[key(call)].append(index)
    return groups


def _compare_tokens(
    imported: ImportedTranscript, wire: ResponseUsage, side: ResponseUsage
) -> Iterator[Disagreement]:
    """The agent's own total; where it gives none, the sum over its messages must not exceed the wire's.

    Messages are often not all: titles and summaries are asked for on the side, and few agents count those.
    """
    has_total = imported.totals.usage != ResponseUsage()
    claims = imported.totals.usage if has_total else imported.total_usage
    for part in ("request_input_tokens", "cache_read_tokens", "output_tokens"):
        claimed, metered = getattr(claims, part), getattr(wire, part)
        if claimed is None or metered is None:
            continue
        without_side = metered - (getattr(side, part) or 0)
        if claimed > metered or (has_total and claimed not in {metered, without_side}):
            yield TokensDiffer(part=part, in_transcript=claimed, on_wire=metered)
