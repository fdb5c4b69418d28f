"""A harness in a process of its own, for tests that need it to be somebody else, or to die.

Run as a script: everything is imported as whoever started it, then it becomes the user it was told to be,
then it obeys orders, one line of JSON each.
"""

from __future__ import annotations

import codecs
import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from repotrial._core.words import Level
from repotrial.isolation import (
    Bind,
    CommandSpec,
    HostRoot,
    OverlayMount,
    ResourceLimits,
    Sandbox,
    SandboxSpec,
    find_back_end,
    open_sandbox,
    probe_machine,
)
from repotrial.isolation._levels._launcher import account_maps, open_default_launcher
from repotrial.syscalls import SyscallRecord


class Harness:
    """Obeys."""

    def __init__(self) -> None:
        self._sandboxes: dict[int, Sandbox] = {}
        self._records: dict[int, list[SyscallRecord]] = {}
        self._started: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}

    def obey(self, order: dict[str, Any]) -> Any:
        return getattr(self, f"_{order.pop('order')}")(**order)

    def _open(self, *, level: str, spec: dict[str, Any]) -> dict[str, Any]:
        number = len(self._records)
        records: list[SyscallRecord] = []
        sandbox = open_sandbox(parse_spec(spec), level=Level(level), sink=records.append)
        self._sandboxes[number], self._records[number] = sandbox, records
        return {"number": number, "pid": getattr(sandbox, "pid", 0)}

    def _run(self, *, number: int, command: dict[str, Any]) -> Any:
        result = self._sandboxes[number].run(msgspec.convert(command, CommandSpec))
        streams = {name: getattr(result, name) for name in ("stdout", "stderr")}
        return {
            **msgspec.to_builtins(msgspec.structs.replace(result)),
            **{
                name: {
                    "prefix": stream.prefix.decode("latin-1"),
                    "digest": stream.digest,
                    "length_bytes": stream.length_bytes,
                }
                for name, stream in streams.items()
            },
        }

    def _start(self, *, number: int, command: dict[str, Any]) -> None:
        """Run something without waiting for it."""
        results = self._started.setdefault(number, queue.SimpleQueue())

        def run() -> None:
            results.put(attempt(lambda: self._run(number=number, command=command)))

        threading.Thread(target=run, daemon=True).start()

    def _finished(self, *, number: int, seconds: float) -> Any:
        """How the first of the started commands came to its end."""
        return self._started[number].get(timeout=seconds)

    def _call(self, *, number: int, method: str, arguments: list[Any]) -> None:
        getattr(self._sandboxes[number], method)(*arguments)

    def _close(self, *, number: int) -> None:
        self._sandboxes.pop(number).close()

    def _seen(self, *, number: int) -> list[str]:
        return [getattr(record, "call", type(record).__name__) for record in self._records[number]]

    def _state(self) -> dict[str, Any]:
        """What a leak would show up in."""
        return {
            # One map is kept for each account, and other harnesses take accounts now and then.
            "fds": len(os.listdir("/proc/self/fd")) - len(vars(account_maps)["_opened"]),
            "threads": threading.active_count(),
            "launcher": open_default_launcher().pid,
            "uid": os.geteuid(),
        }

    def _findings(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(finding) for finding in probe_machine()]


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"answer": action()}
    except Exception as error:  # noqa: BLE001 - told to the test, which expects it or fails
        return {"error": f"{getattr(error, 'code', type(error).__name__)}: {error}"}


def parse_spec(spec: dict[str, Any]) -> SandboxSpec:
    fields = dict(spec)
    fields["workspace"] = Path(fields["workspace"])
    if overlay := fields.pop("overlay", None):
        fields["overlay"] = OverlayMount(**{name: Path(path) for name, path in overlay.items()})
    if tools := fields.pop("tool_roots", None):
        fields["root"] = HostRoot(tool_roots=tuple(map(Path, tools)))
    binds = [Bind(**{**bind, "source": Path(bind["source"])}) for bind in fields.pop("binds", [])]
    limits = msgspec.convert(fields.pop("limits", {}), ResourceLimits)
    tools_masked = tuple(fields.pop("test_tools", ()))
    return SandboxSpec(**fields, binds=tuple(binds), limits=limits, test_tools=tools_masked)


def become(uid: int) -> None:
    for name in ("ascii", "latin-1", "utf-8"):
        codecs.lookup(name)  # a module each, which may be out of reach afterwards
    find_back_end(Level.L3)  # the same
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Helpers need an interpreter that this user can reach; any will do, they need only its own library.
    if not os.access(sys.executable, os.X_OK):
        sys.executable = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable


def main() -> None:
    if sys.argv[1] != "-":
        become(int(sys.argv[1]))
    harness = Harness()
    for line in sys.stdin:
        answer = attempt(lambda line=line: harness.obey(json.loads(line)))  # type: ignore[misc]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
