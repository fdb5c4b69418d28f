"""System calls that the standard library does not have, by name.

This module and those that say so in their first lines need nothing but the standard library: they also run
in helper processes that are started without the rest. No room of judges may import it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final, TypeAlias

from repotrial._core.call_numbers import load_numbers

Argument: TypeAlias = int | bytes | ctypes.Array[ctypes.c_char] | None


_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_GET_NOTIF_SIZES: Final = 3
_NEW_LISTENER: Final = 1 << 3
_WAIT_KILLABLE_RECV: Final = 1 << 5
_NUMBERS: Final = load_numbers(os.uname().machine)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PRCTL: Final = _LIBC.prctl
_PRCTL.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def system_call(name: str, *arguments: Argument) -> int:
    """Make a system call.

    Raises:
        OSError: The kernel refused; the call's name stands in the message.
    """
    if name not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"{name}: its number is not known on this architecture")
    result: int = _LIBC.syscall(ctypes.c_long(_NUMBERS[name]), *map(_pass, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def control_process(option: int, value: int = 0) -> None:
    """Change something about this process: prctl, which is called often enough to have its own way.

    Raises:
        OSError: The kernel refused.
    """
    if _PRCTL(option, value, 0, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl: {os.strerror(number)}")


def build_buffer(layout: str, *values: int) -> ctypes.Array[ctypes.c_char]:
    """A structure in memory, for the kernel to read or to fill."""
    packed = struct.pack(layout, *values)
    return ctypes.create_string_buffer(packed, len(packed))


def refuse_new_privileges() -> None:
    """From here on no program gains anything by being executed; it cannot be taken back."""
    control_process(_PR_SET_NO_NEW_PRIVS, 1)


def install_filter(program: bytes, *, with_listener: bool) -> int | None:
    """Put this process, and all that it becomes and starts, under the filter.

    Args:
        program: What `build_filter` made.
        with_listener: Whether a supervisor will answer for it.

    Returns:
        The descriptor that the supervisor needs; close it here once it is sent.

    Raises:
        OSError: The kernel has no such filters, or a supervisor is there already.
    """
    refuse_new_privileges()
    instructions = ctypes.c_char_p(program)
    address = ctypes.cast(instructions, ctypes.c_void_p).value or 0
    header = struct.pack("=HxxxxxxQ", len(program) // 8, address)
    if not with_listener:
        system_call("seccomp", _SET_MODE_FILTER, 0, header)
        return None
    try:
        return system_call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE_RECV, header)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # Before Linux 5.19 a signal restarts a call that is being decided; it is then decided twice.
    return system_call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, header)


def read_notification_sizes() -> tuple[int, int]:
    """How large this kernel's notifications and responses are, in bytes."""
    sizes = build_buffer("=HHH", 0, 0, 0)
    system_call("seccomp", _GET_NOTIF_SIZES, 0, sizes)
    notification, response, _ = struct.unpack("=HHH", sizes.raw)
    return notification, response


def _pass(argument: Argument) -> object:
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if argument is None:
        return ctypes.c_void_p(None)
    return ctypes.byref(argument)
