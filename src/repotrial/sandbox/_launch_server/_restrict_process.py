"""The launcher of the degraded level: gives up what it may not have, then becomes the program.

In this order: limits, identity, no new privileges, Landlock, and last the syscall filter, which would
refuse some of what comes before. Needs only the standard library.
"""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Sequence
from typing import Any, Final

from repotrial.sandbox._launch_server._kernel import install_filter, refuse_new_privileges, send_descriptor
from repotrial.sandbox._launch_server._landlock import LandlockRules, apply_landlock

__all__ = ["main", "obey"]

_ORDER_BYTES: Final = 1 << 20
_FAILED: Final = 127


def main(arguments: Sequence[str]) -> None:
    """Read an order from a channel, obey it, and execute its program; on the way back goes only a failure."""
    channel = socket.socket(fileno=int(arguments[0]))
    # Closed by the kernel when the program starts: that tells the other side that all went well.
    channel.set_inheritable(False)
    with channel, channel.makefile("rb") as stream:
        order = json.loads(stream.readline(_ORDER_BYTES))
        try:
            listener = obey(order)
            if listener is not None:
                send_descriptor(channel, listener)
                os.close(listener)
            os.execve(order["argv"][0], order["argv"], order["variables"])  # noqa: S606 - that is its purpose
        except OSError as error:
            channel.sendall(json.dumps({"errno": error.errno, "message": str(error)}).encode())
        os._exit(_FAILED)


def obey(order: dict[str, Any]) -> int | None:
    """Give up what the order says; the filter's listener, where it is to have one.

    Raises:
        OSError: Something could not be given up.
    """
    for number, value in order["limits"]:
        _set_limit(number, value)
    if order["uid"] is not None:
        os.setgroups([])
        os.setresgid(order["gid"], order["gid"], order["gid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    os.chdir(order["cwd"])
    refuse_new_privileges()
    if order["landlock"] is not None:
        apply_landlock(LandlockRules(**order["landlock"]))
    if order["filter"] is None:
        return None
    return install_filter(bytes.fromhex(order["filter"]), with_listener=order["has_listener"])


def _set_limit(number: int, value: int) -> None:
    """Lower a limit; one that is lower already stays."""
    hard = resource.getrlimit(number)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (bound, bound))
