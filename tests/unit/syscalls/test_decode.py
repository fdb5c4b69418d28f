from __future__ import annotations

import ctypes
import os
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.syscalls._decode import ProcessMemory, decode_arguments, parse_address


def inet(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def inet6(host: str, port: int) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + packed + bytes(4)


@pytest.mark.parametrize(
    ("raw", "text", "is_inside"),
    [
        (inet("127.0.0.1", 80), "127.0.0.1:80", True),
        (inet("127.9.8.7", 80), "127.9.8.7:80", True),
        (inet("0.0.0.0", 1), "0.0.0.0:1", True),
        (inet("198.51.100.7", 443), "198.51.100.7:443", False),
        (inet("128.0.0.1", 65535), "128.0.0.1:65535", False),
        (inet6("::1", 80), "[::1]:80", True),
        (inet6("::", 80), "[::]:80", True),
        (inet6("::ffff:127.0.0.1", 80), "[::ffff:127.0.0.1]:80", True),
        (inet6("::ffff:198.51.100.7", 80), "[::ffff:198.51.100.7]:80", False),
        (inet6("2001:db8::1", 443), "[2001:db8::1]:443", False),
        (inet6("fe80::1", 443), "[fe80::1]:443", False),
    ],
)
def test_addresses_are_read_and_told_apart(raw: bytes, text: str, *, is_inside: bool) -> None:
    address = parse_address(raw)
    assert address is not None
    assert address.is_inside is is_inside
    if "::ffff:" not in text:  # written differently by different versions of Python
        assert str(address) == text


@pytest.mark.parametrize(
    "raw", [b"", b"\x02", inet("127.0.0.1", 80)[:7], inet6("::1", 80)[:23], b"\x01\x00/run/x\0", bytes(128)]
)
def test_what_is_no_internet_address_is_none(raw: bytes) -> None:
    assert parse_address(raw) is None


@given(st.binary(max_size=128))
def test_any_bytes_can_be_an_address(raw: bytes) -> None:
    address = parse_address(raw)
    assert address is None or str(address)


def test_text_is_read_up_to_its_end_and_stays_readable() -> None:
    path = ctypes.create_string_buffer(b"/usr/bin/\xff\0more")
    with ProcessMemory(os.getpid()) as memory:
        assert memory.read_text(ctypes.addressof(path)) == ("/usr/bin/\\xff", True)


@given(st.integers(0, 2**64 - 1))
def test_any_pointer_can_be_a_path(pointer: int) -> None:
    with ProcessMemory(os.getpid()) as memory:
        assert isinstance(memory.read_text(pointer)[0], str)


def test_text_numbers_and_words_are_told_apart() -> None:
    name = ctypes.create_string_buffer(b"tmpfs")
    with ProcessMemory(os.getpid()) as memory:
        assert decode_arguments(memory, "fsopen", (ctypes.addressof(name), 1, 0, 0, 0, 0)) == ("tmpfs", "0x1")
        assert decode_arguments(memory, "socket", (40, 2**32 - 1, 0, 0, 0, 0)) == ("40", "-1", "0")
        assert decode_arguments(memory, "chroot", (8, 0, 0, 0, 0, 0)) == ("0x8",)
        assert decode_arguments(memory, "unheard-of", (1, 2, 3, 4, 5, 6)) == ("0x1", "0x2", "0x3")


def test_without_memory_pointers_stay_numbers() -> None:
    assert decode_arguments(None, "mount", (1, 2, 3, 4, 5, 6)) == ("0x1", "0x2", "0x3", "0x4")
