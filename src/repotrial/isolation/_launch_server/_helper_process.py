"""The helper's side: a process with one thread that has a child ready for the next request, and never more.

A child that entered a namespace can not come back, so each serves one request. It is forked beforehand:
then no request waits for that. Needs only the standard library.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from repotrial.isolation._launch_server._kernel import system_call
from repotrial.isolation._launch_server._namespaces import (
    cover,
    enter_namespace,
    listen_inside,
    set_mount_read_only,
    signal_inside,
    uncover,
)

MESSAGE_BYTES: Final = 64 * 1024
"""Largest request."""


def main(arguments: Sequence[str]) -> None:
    """Serve requests on a channel until its other end closes, or a child fails to answer."""
    # Tables and libraries that a first call loads: once here, not in every child.
    system_call("getpid")
    with socket.socket(fileno=int(arguments[0])) as channel:
        while True:
            child = os.fork()
            if child == 0:
                _serve_in_child(channel)
            # Whoever waits for an answer that will not come sees the channel close.
            if os.waitpid(child, 0)[1] != 0:
                return


def _serve_in_child(channel: socket.socket) -> NoReturn:
    status = 1
    try:
        request = channel.recv(MESSAGE_BYTES)
        if request:
            _serve(channel, request)
            status = 0
    finally:
        os._exit(status)


def _serve(channel: socket.socket, request: bytes) -> None:
    try:
        descriptors = _execute(json.loads(request))
    except OSError as error:
        _reply(channel, {"errno": error.errno or errno.EIO, "message": str(error)})
    else:
        _reply(channel, {}, descriptors)


def _execute(request: dict[str, Any]) -> list[int]:
    match request:
        case {"operation": "read-only", "pid": int(pid), "path": str(path), "is_read_only": bool(value)}:
            enter_namespace(pid, "mnt")
            set_mount_read_only(path, is_read_only=value)
        case {"operation": "cover", "pid": int(pid), "paths": list(paths)}:
            cover(enter_namespace(pid, "mnt"), paths)
        case {"operation": "uncover", "pid": int(pid), "paths": list(paths)}:
            uncover(enter_namespace(pid, "mnt"), paths)
        case {"operation": "signal", "pid": int(pid), "number": int(number)}:
            enter_namespace(pid, "pid")
            signal_inside(number)
        case {"operation": "listen", "pid": int(pid), "port": int(port)}:
            enter_namespace(pid, "net")
            return [listen_inside(port).detach()]
        case _:
            raise OSError(errno.EINVAL, f"unknown request {request}")
    return []


def _reply(channel: socket.socket, answer: dict[str, object], descriptors: Sequence[int] = ()) -> None:
    socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)
