"""A second opinion on filters: runs classic BPF as the kernel does, and refuses what the kernel refuses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

ALLOW: Final = "allow"
KILL: Final = "kill"
NOTIFY: Final = "notify"

_KNOWN: Final = {0x06, 0x20, 0x54, 0x05, 0x15, 0x35, 0x45}


class Filter(NamedTuple):
    instructions: tuple[tuple[int, int, int, int], ...]

    @staticmethod
    def parse(program: bytes) -> Filter:
        assert len(program) % 8 == 0
        instructions = tuple(struct.iter_unpack("=HBBI", program))
        assert 0 < len(instructions) <= 4096
        for place, (code, if_true, if_false, value) in enumerate(instructions):
            assert code in _KNOWN, hex(code)
            reach = value if code == 0x05 else max(if_true, if_false) if code in {0x15, 0x35, 0x45} else 0
            assert place + 1 + reach < len(instructions) + (code == 0x06), place
            assert code != 0x20 or (value % 4 == 0 and value < 64), place
        return Filter(instructions)

    def run(self, architecture: int, number: int, arguments: Sequence[int] = ()) -> str:
        """What the kernel would do: `allow`, `notify`, `kill`, or the number of an error."""
        padded = [*arguments, *[0] * (6 - len(arguments))]
        data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *(a & (2**64 - 1) for a in padded))
        accumulator, place = 0, 0
        while True:
            code, if_true, if_false, value = self.instructions[place]
            place += 1
            match code:
                case 0x06:
                    return _name(value)
                case 0x20:
                    (accumulator,) = struct.unpack_from("=I", data, value)
                case 0x54:
                    accumulator &= value
                case 0x05:
                    place += value
                case _:
                    holds = _compare(code, accumulator, value)
                    place += if_true if holds else if_false


def _compare(code: int, accumulator: int, value: int) -> bool:
    match code:
        case 0x15:
            return accumulator == value
        case 0x35:
            return accumulator >= value
        case _:
            return bool(accumulator & value)


def _name(action: int) -> str:
    match action & 0xFFFF0000:
        case 0x7FFF0000:
            return ALLOW
        case 0x7FC00000:
            return NOTIFY
        case 0x80000000:
            return KILL
        case 0x00050000:
            return str(action & 0xFFFF)
        case _:
            raise AssertionError(hex(action))
