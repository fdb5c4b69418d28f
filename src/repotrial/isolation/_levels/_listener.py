"""A listener that the harness owns inside a sandbox's network namespace.

The sandbox has no network; what listens on its loopback address is all that it can reach, and the harness
accepts from outside. Nothing has to run inside, and nothing inside can end it.
"""

from __future__ import annotations

import socket

from repotrial.isolation._levels._helper import NamespaceHelper, open_default_helper
from repotrial.isolation._levels._stages import SANDBOX_ENTRY


def open_listener(pid: int, port: int, *, helper: NamespaceHelper | None = None) -> socket.socket:
    """Listen on 127.0.0.1 inside the sandbox of a process.

    Open it before the payload runs (`--block-fd`), or a program inside could take the port first.

    Raises:
        SANDBOX_ENTRY: The port is taken, or the sandbox cannot be entered.
    """
    try:
        descriptor = (helper or open_default_helper()).request(operation="listen", pid=pid, port=port)
    except OSError as error:
        raise SANDBOX_ENTRY.error(f"process {pid}, port {port}: {error}") from error
    if descriptor is None:
        raise SANDBOX_ENTRY.error(f"process {pid}, port {port}: expected a listener, found none")
    return socket.socket(fileno=descriptor)
