"""Two runs side by side: what one of them does must not decide what is found about the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.exhaustive import IS_EXHAUSTIVE, sample
from support.harness import HARNESSES, HarnessProcess, make_workspace, start_harness
from support.waiting import wait_until

ROUNDS: Final = 20 if IS_EXHAUSTIVE else 1

# A check as many are: it reads tools, locks, starts programs, hands descriptors on, and computes.
CHECK: Final = """
import array, ctypes, fcntl, os, select, socket, subprocess, sys, time
for name in ("/usr/bin/env", "/usr/bin/git", "/usr/bin/python3"):
    with open(name, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        file.read(65536)
for _ in range(5):
    subprocess.run(["/usr/bin/env", "true"], check=True)
left, right = socket.socketpair()
with open("/usr/bin/env", "rb") as file:
    socket.send_fds(left, [b"x"], [file.fileno()] * 20)
reader, writer = os.pipe()
assert fcntl.fcntl(writer, 1032) == 65536, "pipes are small"
libc = ctypes.CDLL(None, use_errno=True)
assert libc.inotify_init1(0) >= 0, "no watch"
with open("made", "wb") as file:
    file.write(bytes(4 << 20))
block = bytearray(32 << 20)
block[::4096] = b"x" * len(block[::4096])
print(sum(range(300_000)))
"""
SAID: Final = f"{sum(range(300_000))}\n"

START: Final = """
import array, ctypes, fcntl, mmap, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
held = []
open("started", "w").close()
def attempt(call):
    try:
        return call()
    except (OSError, MemoryError, ValueError, OverflowError):
        return None
"""
END: Final = """
open("ready", "w").close()
time.sleep(600)
"""
HOSTILE: Final = {
    "a processor hog": """
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
""",
    "leases": """
for folder in ("/usr/bin", "/usr/lib/python3"):
    for name in os.listdir(folder)[:4000] + ["env", "git", "python3"]:
        file = attempt(lambda: os.open(f"{folder}/{name}", os.O_RDONLY))
        if file is not None:
            held.append(file)
            attempt(lambda: fcntl.fcntl(file, 1024, fcntl.F_WRLCK))
""",
    "locks": """
for name in ("env", "git", "python3"):
    held.append(open(f"/usr/bin/{name}", "rb"))
    attempt(lambda: fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB))
""",
    "watches": """
for _ in range(2000):
    watch = libc.inotify_init1(0)
    if watch < 0:
        break
""",
    "a disk without names": """
for number in range(40):
    file = attempt(lambda: os.open(".", os.O_TMPFILE | os.O_RDWR)) if number % 2 else None
    if file is None:
        file = attempt(lambda: os.open("gone", os.O_CREAT | os.O_RDWR))
        attempt(lambda: os.unlink("gone"))
    if file is not None:
        held.append(file)
        for _ in range(8):
            attempt(lambda: os.write(file, bytes(1 << 20)))
""",
    "very many files": """
for folder in ("/tmp", "/dev/shm", "."):
    for number in range(6_000):
        if attempt(lambda: os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY))) is None:
            pass
""",
    "descriptors on their way": """
for _ in range(400):
    pair = attempt(socket.socketpair)
    if pair is None:
        break
    held.append(pair)
    pair[0].setblocking(False)
    while attempt(lambda: socket.send_fds(pair[0], [b"x"], [1] * 250)) is not None:
        pass
""",
    "pages of pipes": """
for _ in range(2000):
    ends = attempt(os.pipe)
    if ends is None:
        break
    held.append(ends)
    attempt(lambda: fcntl.fcntl(ends[0], 1031, 1 << 20))
""",
    "memory in files without names": """
for number in range(16):
    file = attempt(lambda: os.memfd_create(str(number)))
    if file is not None:
        held.append(file)
        attempt(lambda: os.write(file, bytes(32 << 20)))
""",
    "memory that is shared": """
for _ in range(16):
    area = attempt(lambda: mmap.mmap(-1, 32 << 20))
    if area is not None:
        held.append(area)
        for place in range(0, len(area), 4096):
            area[place] = 1
""",
    "segments without an owner": """
libc.shmat.restype = ctypes.c_void_p
for _ in range(16):
    segment = libc.shmget(0, 32 << 20, 0o1600)
    if segment >= 0:
        address = libc.shmat(segment, None, 0)
        ctypes.memset(address, 1, 32 << 20)
        libc.shmdt(ctypes.c_void_p(address))
""",
    "buffers of sockets": """
for _ in range(600):
    pair = attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    if pair is None:
        break
    held.append(pair)
    for end in pair:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        while attempt(lambda: end.send(bytes(65536))):
            pass
""",
    "a fork bomb": """
open("ready", "w").close()
while True:
    if attempt(os.fork) is None:
        time.sleep(0.01)
""",
    "a flood of output": """
open("ready", "w").close()
while True:
    os.write(1, b"x" * 65536)
""",
}
SHARED_BY_USER: Final = frozenset({"descriptors on their way", "pages of pipes"})
"""What the kernel counts for all processes of a user together: an ordinary user has no second one to give."""
LIMITS: Final = {"memory_mb": 256, "processes": 100, "disk_mb": 64, "open_files": 4096}


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    with start_harness(request.param) as process:
        yield process


def check(harness: HarnessProcess) -> dict[str, Any]:
    """What a check of a correct change ends with, in a sandbox of its own."""
    with make_workspace(harness) as workspace, harness.sandbox(workspace, limits=LIMITS) as sandbox:
        return sandbox.python(CHECK)


@contextlib.contextmanager
def open_neighbor(harness: HarnessProcess, code: str) -> Iterator[None]:
    """A run beside, at work."""
    with make_workspace(harness) as workspace, harness.sandbox(workspace, limits=LIMITS) as sandbox:
        (workspace / "hostile.py").write_text(START + code + END, encoding="utf-8")
        sandbox.start("exec /usr/bin/python3 hostile.py")
        # It may be ended for what it takes before it comes that far: that is as good.
        wait_until(
            lambda: (
                (workspace / "ready").exists()
                or ((workspace / "started").exists() and has_ended(sandbox.pid))
            )
        )
        yield


def has_ended(pid: int) -> bool:
    """Whether nothing but our own processes is left in a sandbox."""
    own = Path(f"/proc/{pid}/ns/pid")
    try:
        namespace = own.readlink()
    except OSError:
        return True
    inside = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            inside += (path / "ns" / "pid").readlink() == namespace and b"hostile.py" in (
                path / "cmdline"
            ).read_bytes()
    return not inside


@pytest.mark.parametrize("kind", sample(sorted(HOSTILE), 9))
def test_a_hostile_neighbor_changes_no_verdict(harness: HarnessProcess, kind: str) -> None:
    if kind in SHARED_BY_USER and harness.uid:
        pytest.skip("an ordinary user has one account for all sandboxes; `doctor` says so")
    for _ in range(ROUNDS):
        with open_neighbor(harness, HOSTILE[kind]):
            result = check(harness)
        assert (result["exit"], result["cause"]) == ({"kind": "exited", "code": 0}, "ended"), result["stderr"]
        assert result["stdout"]["prefix"] == SAID


def test_a_harmless_neighbor_changes_no_verdict(harness: HarnessProcess) -> None:
    for _ in range(ROUNDS):
        with open_neighbor(harness, ""):
            result = check(harness)
        assert result["exit"] == {"kind": "exited", "code": 0}, result["stderr"]
        assert result["stdout"]["prefix"] == SAID


def test_descriptors_on_their_way_end_no_other_sandbox(harness: HarnessProcess) -> None:
    """The launch server may send more than any sandbox, where an ordinary user has one count for all."""
    with open_neighbor(harness, HOSTILE["descriptors on their way"]):
        for _ in range(3):
            with make_workspace(harness) as workspace, harness.sandbox(workspace) as sandbox:
                assert sandbox.shell("true")["exit"] == {"kind": "exited", "code": 0}
