"""Make every attempt on a real sandbox of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import Level
from repotrial.isolation import (
    BackEnd,
    Capabilities,
    CommandSpec,
    Layer,
    Sandbox,
    SandboxSpec,
    build_numbers,
    find_back_end,
    find_identity,
    find_machine,
    open_sandbox,
)
from repotrial.machine._probe_suite._attempts import ATTEMPTS, PLANTED
from repotrial.machine._probe_suite._frame import FRAME
from repotrial.machine._probe_suite._model import Attempt, AttemptResult, Evidence, ProbeReport, Verdict
from repotrial.machine._probe_suite._scene import NEIGHBOR_PORT, Scene, open_scene
from repotrial.trace import Exited

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
        seen = _look_outside(scene, workspace)
    return ProbeReport(
        level=level,
        harness_uid=os.geteuid(),
        sandbox_uid=identity.uid,
        results=tuple(_judge(attempt, back_end.promises, outcomes, seen) for attempt in ATTEMPTS),
    )


def build_probe_argv(attempts: Sequence[Attempt], facts: Mapping[str, str]) -> tuple[str, ...]:
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


def _look_outside(scene: Scene, workspace: Path) -> frozenset[Evidence]:
    """Which signs of success there are on the host, whatever was said inside."""
    left = [path.lstat() for path in workspace.iterdir()]
    signs: dict[Evidence, bool] = {
        "connection": scene.has_connection(),
        "datagram": scene.has_datagram(),
        "planted-file": any(Path(path).exists() for path in PLANTED),
        "owner": any(not status.st_uid for status in left),
    }
    return frozenset(sign for sign, is_there in signs.items() if is_there)


def _judge(
    attempt: Attempt,
    promises: frozenset[Layer],
    outcomes: Mapping[str, tuple[str, str]],
    seen: frozenset[Evidence],
) -> AttemptResult:
    outcome, said = outcomes.get(attempt.name, ("broken", "it was not made"))
    if attempt.evidence in seen:
        outcome, said = "escaped", f"seen outside: {attempt.evidence}"
    is_promised = attempt.layer in promises
    verdict: Verdict
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
