r"""The hash chain: what is hashed, in which order, under which names.

    genesis = sha256("repotrial/genesis@1\0" run_id)
    hash_n  = sha256("repotrial/event@2\0" hash_(n-1) seq_n form_n)

`hash_(n-1)` are 32 raw bytes, `seq_n` 8 bytes big-endian. `form_n` is the event's line without its newline,
without the member `"hash":"…",`, and with every body in the form that it has after it was taken out: digests
and lengths, no text. So a text can be taken out later and the chain holds, and no text can be changed.

In version 1 the line itself was hashed, under the name `event@1`. Keys are sorted, so the hash stands at one
of four known places: right behind the actor.
"""

from __future__ import annotations

from hashlib import sha256 as _sha256
from typing import Any

import orjson

from repotrial.trace._body import BODY_MARK, withdraw_bodies
from repotrial.trace._event import ACTORS

_EVENT_STATES = {version: _sha256(b"repotrial/event@%d\0" % version) for version in (1, 2)}
_GENESIS_TAG = b"repotrial/genesis@1\0"

_HASH_KEY = b'"hash":"'
_HASH_MEMBER_BYTES = len(_HASH_KEY) + 64 + len(b'",')

_FRONTS: frozenset[bytes] = frozenset(b'{"actor":"%b",' % actor.encode() for actor in ACTORS)
_FIRST_CUT = min(map(len, _FRONTS))
_LAST_CUT_END = max(map(len, _FRONTS)) + len(_HASH_KEY)

LINE_FRONTS: dict[str, tuple[bytes, int]] = {
    actor: (b'{"actor":"%b",%b' % (actor.encode(), _HASH_KEY), len(b'{"actor":"",') + len(actor))
    for actor in ACTORS
}
"""How a line begins, up to the hash's digits, and where its body goes on behind the actor; by actor."""


def genesis_hash(run_id: str) -> bytes:
    """What the first event is chained to: no two runs start alike."""
    return _sha256(_GENESIS_TAG + run_id.encode("utf-8", "surrogatepass")).digest()


def link_hash(previous: bytes, seq: int, form: bytes, *, version: int) -> bytes:
    """The chained digest of one event, 32 raw bytes."""
    state = _EVENT_STATES[version].copy()  # cheaper than a new one, and the parts need not be joined
    state.update(previous)
    state.update(seq.to_bytes(8, "big"))
    state.update(form)
    return state.digest()


def build_form(body: bytes, event: dict[str, Any]) -> bytes:
    """What version 2 hashes of a line without its hash.

    Args:
        body: The line.
        event: The same, parsed; with or without its hash.
    """
    if BODY_MARK not in body:
        return body
    bare = {key: item for key, item in event.items() if key != "hash"}
    return orjson.dumps(withdraw_bodies(bare), option=orjson.OPT_SORT_KEYS)


def cut_line(line: bytes) -> tuple[bytes, bytes] | None:
    """Take the hash out of a line (without newline).

    Returns:
        The 64 hex digits and the body, or None if the hash is not at its place.
    """
    cut = line.find(_HASH_KEY, _FIRST_CUT, _LAST_CUT_END)
    front = line[:cut]
    if front not in _FRONTS:
        return None
    end = cut + _HASH_MEMBER_BYTES
    if line[end - 2 : end] != b'",':
        return None
    return line[cut + len(_HASH_KEY) : end - 2], front + line[end:]
