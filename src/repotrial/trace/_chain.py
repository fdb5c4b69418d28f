r"""The hash chain: what is hashed, in which order, under which names.

    genesis = sha256("repotrial/genesis@1\0" run_id)
    hash_n  = sha256("repotrial/event@1\0" hash_(n-1) seq_n body_n)

`hash_(n-1)` are 32 raw bytes, `seq_n` 8 bytes big-endian, and `body_n` is the event's line without its
newline and without the member `"hash":"…",`. Keys are sorted, so that member stands at one of four known
places: right behind the actor. Verification therefore cuts it out of the raw bytes and never re-serializes.
"""

from __future__ import annotations

from hashlib import sha256 as _sha256

from repotrial.trace._event import ACTORS

_EVENT_STATE = _sha256(b"repotrial/event@1\0")
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


def link_hash(previous: bytes, seq: int, body: bytes) -> bytes:
    """The chained digest of one event, 32 raw bytes."""
    state = _EVENT_STATE.copy()  # cheaper than a new one, and the parts need not be joined
    state.update(previous)
    state.update(seq.to_bytes(8, "big"))
    state.update(body)
    return state.digest()


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
