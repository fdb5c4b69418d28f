"""The test's side of a harness in another process: root or an ordinary user, and mortal."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import find_identity
from support.waiting import PATIENCE_SECONDS

ORDINARY_UID: Final = 64321
"""Somebody without an account, who owns nothing but what a test gives."""
PROGRAM: Final = Path(__file__).with_name("harness_process.py")
SOURCES: Final = Path(__file__).resolve().parents[2] / "src"
VARIABLES: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
SECRET: Final = "REPOTRIAL_TEST_SECRET"

HARNESSES: Final = ("root", "user")

HEADLESS: Final = """
import ctypes, platform, threading, time
def work():
    open("headless", "w").close()
    time.sleep(97)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""
"""A program that ends its first thread alone, and says so by a file."""


class OrderError(Exception):
    """The harness said no."""


class RemoteSandbox:
    """A sandbox that another process has opened."""

    def __init__(self, harness: HarnessProcess, opened: dict[str, Any]) -> None:
        self.harness = harness
        self.number: int = opened["number"]
        self.pid: int = opened["pid"]
        """PID 1 inside, as the host counts."""

    def run(self, *argv: str, **fields: Any) -> dict[str, Any]:
        command = {"argv": argv, "timeout_seconds": 120, **fields}
        result: dict[str, Any] = self.harness.order("run", number=self.number, command=command)
        return result

    def shell(self, script: str, **fields: Any) -> dict[str, Any]:
        return self.run("/bin/sh", "-c", script, **fields)

    def python(self, code: str, **fields: Any) -> dict[str, Any]:
        return self.run("/usr/bin/python3", "-c", code, **fields)

    def start(self, script: str) -> None:
        """Without waiting for its end."""
        command = {"argv": ("/bin/sh", "-c", script)}
        self.harness.order("start", number=self.number, command=command)

    def finished(self) -> dict[str, Any]:
        """The result of what was started, once it has come to its end."""
        outcome = self.harness.order("finished", number=self.number, seconds=PATIENCE_SECONDS)
        if "error" in outcome:
            raise OrderError(outcome["error"])
        result: dict[str, Any] = outcome["answer"]
        return result

    def call(self, method: str, *arguments: object) -> None:
        self.harness.order("call", number=self.number, method=method, arguments=arguments)

    def seen(self) -> list[str]:
        """Calls that the supervisor has on record."""
        calls: list[str] = self.harness.order("seen", number=self.number)
        return calls

    def close(self) -> None:
        self.harness.order("close", number=self.number)


class HarnessProcess:
    """A harness that can be somebody else."""

    def __init__(self, uid: int | None) -> None:
        self.uid = os.geteuid() if uid is None else uid
        self.scratch = Path(tempfile.mkdtemp(prefix="repotrial-test-")).resolve()
        """Where it puts temporary things."""
        os.chown(self.scratch, self.uid, -1)
        self.scratch.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "-" if uid is None else str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TMPDIR": str(self.scratch),
                SECRET: "do-not-leak-me",
            },
        )

    @property
    def owner(self) -> int:
        """Who programs inside are on the host."""
        return self.uid or find_identity().uid

    def order(self, name: str, **fields: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"order": name, **fields}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "EOFError: it died"}')
        if "error" in answer:
            raise OrderError(answer["error"])
        return answer["answer"]

    def open(self, workspace: Path, *, level: str = "L3", **fields: object) -> RemoteSandbox:
        spec = {"workspace": str(workspace), "variables": VARIABLES, **fields}
        return RemoteSandbox(self, self.order("open", level=level, spec=spec))

    @contextlib.contextmanager
    def sandbox(self, workspace: Path, *, level: str = "L3", **fields: object) -> Iterator[RemoteSandbox]:
        sandbox = self.open(workspace, level=level, **fields)
        try:
            yield sandbox
        finally:
            sandbox.close()

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.order("state")
        return state

    def give(self, path: Path) -> None:
        """Make a file or directory belong to whoever programs inside are."""
        if os.geteuid() == 0:
            os.chown(path, self.owner, self.owner)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        remove_tree(self.scratch)

    def kill(self) -> None:
        self.process.kill()
        self.close()


@contextlib.contextmanager
def start_harness(kind: str) -> Iterator[HarnessProcess]:
    """A harness as root or as an ordinary user; skips what this test run cannot be."""
    require_sandboxes()
    if kind == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    harness = HarnessProcess(ORDINARY_UID if kind == "user" and os.geteuid() == 0 else None)
    try:
        yield harness
    finally:
        harness.close()


@contextlib.contextmanager
def make_workspace(harness: HarnessProcess, files: dict[str, str] | None = None) -> Iterator[Path]:
    """A directory that belongs to whoever programs inside are."""
    # Not below a directory of pytest's: those are closed to other users, and this one may have to walk there.
    place = Path(tempfile.mkdtemp(prefix="repotrial-test-")).resolve()
    try:
        place.chmod(0o755)
        workspace = place / "workspace"
        workspace.mkdir()
        for name, content in (files or {}).items():
            (workspace / name).write_text(content, encoding="utf-8")
            harness.give(workspace / name)
        harness.give(workspace)
        yield workspace
    finally:
        remove_tree(place)


def require_sandboxes() -> None:
    """Skip only where bubblewrap or user namespaces are missing: where they are there, L3 must work."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no /usr/bin/python3 to run inside")
    limit = Path("/proc/sys/user/max_user_namespaces")
    if limit.exists() and limit.read_text(encoding="ascii").strip() == "0":
        pytest.skip("user namespaces are switched off")


def list_host_processes(words: Sequence[str]) -> list[int]:
    """Processes of the host whose command line contains all of the words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if all(word in line for word in words):
                    found.append(int(entry.name))
    return found
