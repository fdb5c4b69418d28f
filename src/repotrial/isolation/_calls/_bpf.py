"""A small assembler for classic BPF, as seccomp runs it.

A block is a piece of program in which every path returns. So blocks nest freely, and the only jumps are
forward, over a whole block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

ALLOW: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
KILL: Final = 0x80000000
_ERROR: Final = 0x00050000

NUMBER: Final = 0
"""Where the call's number stands in what the kernel shows to the filter."""
ARCHITECTURE: Final = 4

_LOAD, _MASK, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x05, 0x15, 0x35, 0x45
_SHORT_JUMP: Final = 255
"""Conditional jumps have eight bits for their distance."""


class Instruction(NamedTuple):
    code: int
    if_true: int
    if_false: int
    value: int


Block: TypeAlias = tuple[Instruction, ...]


def encode(block: Block) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in block)


def argument_low(index: int) -> int:
    """Where the lower half of an argument stands; both architectures are little-endian."""
    return 16 + 8 * index


def argument_high(index: int) -> int:
    return argument_low(index) + 4


def give(action: int) -> Block:
    return (Instruction(_RETURN, 0, 0, action),)


def refuse(error: int) -> Block:
    return give(_ERROR | error)


def load(offset: int, then: Block) -> Block:
    return (Instruction(_LOAD, 0, 0, offset), *then)


def mask(bits: int, then: Block) -> Block:
    return (Instruction(_MASK, 0, 0, bits), *then)


def equals(value: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_EQUAL, value, then=then, otherwise=otherwise)


def at_least(value: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_AT_LEAST, value, then=then, otherwise=otherwise)


def has_any_bit(bits: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_ANY_BIT, bits, then=then, otherwise=otherwise)


def switch(ranges: Sequence[tuple[int, Block]]) -> Block:
    """A binary search: the block of the last range that begins at or below the value.

    Args:
        ranges: Beginnings in ascending order; the first one is taken to begin at zero.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    return at_least(ranges[middle][0], then=switch(ranges[middle:]), otherwise=switch(ranges[:middle]))


def _branch(code: int, value: int, *, then: Block, otherwise: Block) -> Block:
    if len(then) <= _SHORT_JUMP:
        return (Instruction(code, 0, len(then), value), *then, *otherwise)
    return (Instruction(code, 1, 0, value), Instruction(_JUMP, 0, 0, len(then)), *then, *otherwise)
