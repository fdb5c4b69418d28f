r"""What runs as PID 1 of a sandbox: a program of about 300 bytes that waits for the harness to go away.

A sandbox needs a first process, and the agent shares its PID namespace with it. Any program from the root
file system would do, if there is one, and if no program inside could stop, read or misuse it. This one comes
along with us, is never a file in the sandbox, and leaves nothing to take hold of:

- it is not dumpable: neither its memory nor its descriptors nor its environment open for anyone inside;
- it handles no signal, and the kernel does not deliver others to PID 1 from inside, not even SIGKILL;
- it ignores its children, so orphans are buried without its help;
- it says once, on its standard output, that the sandbox is set up, and closes everything but its standard
  input: a pipe from the harness. When that ends, it ends, and the kernel kills what is left.

Its source is `tools/idle_<machine>.S`; a test assembles it and compares.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from repotrial.syscalls import Machine

READY: Final = b"\x01"
"""What it writes once."""

_CODE: Final[Mapping[Machine, bytes]] = MappingProxyType(
    {
        "x86_64": bytes.fromhex(
            "b89d000000 bf04000000 31f6 0f05"  # prctl
            "4883ec40 48c7042401000000 48c744240802000000"  # the structure, on the stack
            "48c744241000000000 48c744241800000000"
            "b80d000000 bf11000000 4889e6 31d2 41ba08000000 0f05"  # rt_sigaction
            "b801000000 bf01000000 4889e6 ba01000000 0f05"  # write
            "b8b4010000 bf01000000 beffffffff 31d2 0f05"  # close_range
            "31c0 31ff 4889e6 ba01000000 0f05 83f8fc 74ed"  # read, again after EINTR
            "b8e7000000 31ff 0f05"  # exit_group
        ),
        "aarch64": bytes.fromhex(
            "e81480d2 800080d2 010080d2 010000d4"  # prctl
            "ff0301d1 290080d2 4a0080d2 e92b00a9 ff7f01a9"  # the structure, on the stack
            "c81080d2 200280d2 e1030091 020080d2 030180d2 010000d4"  # rt_sigaction
            "080880d2 200080d2 e1030091 220080d2 010000d4"  # write
            "883680d2 200080d2 01008012 020080d2 010000d4"  # close_range
            "e80780d2 000080d2 e1030091 220080d2 010000d4 1f100031 40ffff54"  # read, again after EINTR
            "c80b80d2 000080d2 010000d4"  # exit_group
        ),
    }
)
_ELF_MACHINE: Final[Mapping[Machine, int]] = MappingProxyType({"x86_64": 62, "aarch64": 183})
_BASE: Final = 0x400000
_HEADER_BYTES: Final = 64
_SEGMENT_BYTES: Final = 56
_PAGE_BYTES: Final = 0x10000  # the largest page size of both architectures


def build_idle_program(machine: Machine) -> bytes:
    """The executable: one header, one segment, readable and executable, nothing linked."""
    start = _HEADER_BYTES + _SEGMENT_BYTES
    size = start + len(_CODE[machine])
    header = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1),  # 64 bits, little-endian, version
        *(2, _ELF_MACHINE[machine], 1, _BASE + start),  # executable, machine, version, entry
        *(_HEADER_BYTES, 0, 0),  # segments here, no sections, no flags
        *(_HEADER_BYTES, _SEGMENT_BYTES, 1, 0, 0, 0),
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, _PAGE_BYTES)
    return header + segment + _CODE[machine]
