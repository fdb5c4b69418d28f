"""Make every attempt on a real sandbox of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import Level
from repotrial.isolation import (
    BackEnd,
    BubblewrapSandbox,
    Capabilities,
    CommandSpec,
    Layer,
    Sandbox,
    SandboxSpec,
    find_back_end,
    find_identity,
    open_sandbox,
)
from repotrial.machine._probe_suite._attempts import ATTEMPTS, PLANTED, EscapeAttempt, EscapeSign
from repotrial.machine._probe_suite._scene import NEIGHBOR_PORT, ProbeScene, open_scene
from repotrial.syscalls import build_numbers, find_machine
from repotrial.trace import Exited

# Makes each attempt in a process of its own. One that comes to its end has succeeded; an error of the kernel
# means that it was stopped. Arguments: programs by name, what there is to reach, and numbers of system calls.
FRAME: Final = """\
import ctypes, errno, json, os, signal, socket, stat, struct, subprocess, sys, textwrap, time
libc = ctypes.CDLL(None, use_errno=True)
attempts, scene, NR = map(json.loads, sys.argv[1:])
def call(number, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)]
    value = libc.syscall(*words)
    return "ok" if value >= 0 else errno.errorcode[ctypes.get_errno()]
def check(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
def need(condition):
    if not condition:
        raise OSError(0, "nothing there")
def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
def others():
    return [pid for pid in pids() if pid not in (os.getpid(), os.getppid())]
def ours():
    # Processes of the harness: their parent is outside.
    found = [pid for pid in others() if pid != 1 and b"\\nPPid:\\t0\\n" in read(f"/proc/{pid}/status")]
    assert found, "expected at least the one that started us"
    return found
def read(path):
    with open(path, "rb", buffering=0) as stream:
        return stream.read(100_000)
def write(path, data):
    with open(path, "wb", buffering=0) as stream:
        stream.write(data)
def any_of(*attempts):
    errors = []
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            errors.append(error)
    raise errors[-1]
def make(code):
    names = dict(globals())
    body = textwrap.dedent(code.strip("\\n")) + "\\nreturn locals().get('result')"
    exec("def attempt():\\n" + textwrap.indent(body, "    "), names)
    try:
        result = names["attempt"]()
    except OSError as error:
        return ["stopped", errno.errorcode.get(error.errno, str(error))]
    except BaseException as error:
        return ["broken", repr(error)]
    return ["stopped", result] if result in errno.errorcode.values() else ["escaped", "it succeeded"]
for name, code in attempts.items():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 3000)
        os.close(writer)
        signal.alarm(100)
        outcome = make(code)
        os.write(3000, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 4096)
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Killed by a filter, it never got to say anything.
    ended = ["stopped", "SIGSYS"] if status == -signal.SIGSYS else ["broken", f"it ended with {status}"]
    outcome = json.loads(said) if said else ended
    print(json.dumps([name, *outcome]), flush=True)
"""


AttemptVerdict: TypeAlias = Literal["held", "escaped", "broken", "not-promised"]
"""`broken`: the attempt could not be made, so nothing is known; `not-promised`: it succeeded, and the level
never said that it would not."""


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one attempt."""

    name: str
    tries: str
    """What it tried, in words."""
    layer: Layer
    expected: Literal["stopped", "not-promised"]
    """What the isolation level promises."""
    found: str
    """What the kernel said, or what was seen outside."""
    verdict: AttemptVerdict


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `repotrial sandbox probe`."""

    level: Level
    harness_uid: int
    """Who started the sandbox."""
    sandbox_uid: int
    """Who programs inside are on the host."""
    results: tuple[AttemptResult, ...]

    @property
    def has_held(self) -> bool:
        """Whether everything that was promised was kept, and was tried."""
        return all(result.verdict in {"held", "not-promised"} for result in self.results)


_PYTHON: Final = "/usr/bin/python3"
_SECONDS: Final = 600
_PREFIX_BYTES: Final = 1024**2


PROBE_PROGRAM = ErrorCode(
    "probe-program",
    MachineError,
    "The program that makes the attempts did not run inside, so nothing is known about the sandbox.",
    hint=f"install Python as {_PYTHON}; `repotrial doctor` shows what else this machine lacks",
)


def execute_probe(level: Level) -> ProbeReport:
    """Make every attempt in a sandbox of this level; a success would change nothing of value.

    Raises:
        ISOLATION_LEVEL: This machine does not reach the level.
        ISOLATION_RETIRED: The level is not offered any more.
        PROBE_PROGRAM: The attempts could not be made.
    """
    back_end = find_back_end(level)
    if shutil.which(_PYTHON) is None:
        raise PROBE_PROGRAM.error(f"expected {_PYTHON} for the attempts, found none")
    identity = find_identity()
    with open_scene() as scene:
        workspace, elsewhere = (scene.place / name for name in ("workspace", "elsewhere"))
        for directory in (workspace, elsewhere):
            directory.mkdir()
            if not os.geteuid():
                os.chown(directory, identity.uid, identity.gid)
        with (
            _open_neighbor(elsewhere, back_end),
            open_sandbox(SandboxSpec(workspace=workspace), level=level) as sandbox,
        ):
            outcomes = _make_attempts(sandbox, scene.facts)
            uid = _find_uid(sandbox) or identity.uid
        seen = _look_outside(scene, workspace)
    return ProbeReport(
        level=level,
        harness_uid=os.geteuid(),
        sandbox_uid=uid,
        results=tuple(_judge(attempt, back_end.promises, outcomes, seen) for attempt in ATTEMPTS),
    )


def _find_uid(sandbox: Sandbox) -> int | None:
    """Who programs inside are on the host: a sandbox may have a user of its own."""
    if not isinstance(sandbox, BubblewrapSandbox):
        return None
    status = Path("/proc", str(sandbox.pid), "status").read_text("ascii", "replace")
    return int(status.partition("Uid:")[2].split()[0])


def build_probe_argv(attempts: Sequence[EscapeAttempt], facts: Mapping[str, str]) -> tuple[str, ...]:
    """The command that makes attempts inside, and prints what came of each."""
    programs = {attempt.name: attempt.program for attempt in attempts}
    numbers = dict(build_numbers(find_machine()))
    return (_PYTHON, "-I", "-c", FRAME, *(json.dumps(part) for part in (programs, dict(facts), numbers)))


def parse_outcomes(output: bytes) -> dict[str, tuple[str, str]]:
    """What came of each attempt: `stopped`, `escaped` or `broken`, and what was said."""
    rows = (json.loads(line) for line in output.splitlines())
    return {name: (outcome, said) for name, outcome, said in rows}


@contextlib.contextmanager
def _open_neighbor(workspace: Path, back_end: BackEnd) -> Iterator[None]:
    """Another sandbox with a service, where the level has networks of their own."""
    found = back_end.probe()
    if not isinstance(found, Capabilities) or found.network != "namespace":
        yield
        return
    with open_sandbox(SandboxSpec(workspace=workspace, listener_port=NEIGHBOR_PORT), level=back_end.level):
        yield


def _make_attempts(sandbox: Sandbox, facts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    argv = build_probe_argv(ATTEMPTS, facts)
    result = sandbox.run(CommandSpec(argv=argv, timeout_seconds=_SECONDS, prefix_bytes=_PREFIX_BYTES))
    if result.exit != Exited(code=0):
        said = result.stderr.prefix.decode(errors="replace").strip()[-500:]
        raise PROBE_PROGRAM.error(f"expected the attempts to be made, found {result.exit}: {said}")
    return parse_outcomes(result.stdout.prefix)


def _look_outside(scene: ProbeScene, workspace: Path) -> frozenset[EscapeSign]:
    """Which signs of success there are on the host, whatever was said inside."""
    left = [path.lstat() for path in workspace.iterdir()]
    signs: dict[EscapeSign, bool] = {
        "connection": scene.has_connection(),
        "datagram": scene.has_datagram(),
        "planted-file": any(Path(path).exists() for path in PLANTED),
        "owner": any(not status.st_uid for status in left),
    }
    return frozenset(sign for sign, is_there in signs.items() if is_there)


def _judge(
    attempt: EscapeAttempt,
    promises: frozenset[Layer],
    outcomes: Mapping[str, tuple[str, str]],
    seen: frozenset[EscapeSign],
) -> AttemptResult:
    outcome, said = outcomes.get(attempt.name, ("broken", "it was not made"))
    if attempt.evidence in seen:
        outcome, said = "escaped", f"seen outside: {attempt.evidence}"
    is_promised = attempt.layer in promises
    verdict: AttemptVerdict
    match outcome:
        case "stopped":
            verdict = "held"
        case "escaped":
            verdict = "escaped" if is_promised else "not-promised"
        case _:
            verdict = "broken" if is_promised else "not-promised"
    return AttemptResult(
        name=attempt.name,
        tries=attempt.tries,
        layer=attempt.layer,
        expected="stopped" if is_promised else "not-promised",
        found=said,
        verdict=verdict,
    )
