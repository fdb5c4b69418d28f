"""Our side of the helper: requests that are carried out inside a sandbox's namespaces.

The harness has threads, so it may not fork and go on in the child; the helper has one, and may.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import socket
import subprocess
import threading
from types import TracebackType
from typing import Final, Self

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._launch_server._boot import build_boot_argv
from repotrial.isolation._launch_server._helper_process import MESSAGE_BYTES
from repotrial.isolation._launch_server._kernel import receive_with_descriptors

_REPLY_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0


HELPER_LOST = ErrorCode(
    "helper-lost",
    MachineError,
    "The process that enters sandboxes for the harness ended or does not answer.",
    hint="Repeat the command; look whether the machine is out of memory or processes.",
)


class NamespaceHelper:
    """A process that stands by; ends when this object is closed or its owner dies."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        self._lock = threading.Lock()
        self.owner_pid = os.getpid()
        ours.settimeout(_REPLY_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                build_boot_argv("_helper_process", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                # An interrupt from the keyboard is for the harness, which may need the helper to clean up.
                start_new_session=True,
            )

    def request(self, **fields: object) -> int | None:
        """Carry out one request.

        Returns:
            The descriptor that it brought, if any.

        Raises:
            OSError: The kernel refused, as it said inside.
            HELPER_LOST: Nobody answered.
        """
        message = json.dumps(fields).encode()
        if len(message) > MESSAGE_BYTES:
            raise OSError(
                errno.E2BIG, f"a request of {len(message)} bytes; at most {MESSAGE_BYTES} are possible"
            )
        with self._lock:
            answer, descriptors = self._exchange(message)
        reply: dict[str, object] = json.loads(answer)
        match reply:
            case {"errno": int(number), "message": str(text)}:
                raise OSError(number, text)
            case _:
                return descriptors[0] if descriptors else None

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(self, message: bytes) -> tuple[bytes, list[int]]:
        try:
            self._channel.sendall(message)
            answer, descriptors = receive_with_descriptors(self._channel, MESSAGE_BYTES)
        except OSError as error:
            self._process.kill()
            raise HELPER_LOST.error(f"expected an answer, found {error}") from error
        except BaseException:
            # An interrupt: the answer that still comes would be taken for that of the next request.
            self._process.kill()
            raise
        if not answer:
            raise HELPER_LOST.error("expected an answer, found the end of the channel")
        return answer, descriptors


class _Default:
    """The helper that this process shares; made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: NamespaceHelper | None = None

    def open(self) -> NamespaceHelper:
        with self._lock:
            helper = self._helper
            # A child of the harness has its own; two must not talk through one channel.
            if helper is not None and helper.owner_pid == os.getpid() and helper.is_alive:
                return helper
            if helper is not None and helper.owner_pid == os.getpid():
                helper.close()
            self._helper = NamespaceHelper()
            if helper is None:
                atexit.register(self._close)
            return self._helper

    def _close(self) -> None:
        helper = self._helper
        if helper is not None and helper.owner_pid == os.getpid():
            with contextlib.suppress(OSError):
                helper.close()


_default: Final = _Default()


def open_default_helper() -> NamespaceHelper:
    """The helper of this process, started now if there is none."""
    return _default.open()
