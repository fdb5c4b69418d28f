"""The escape suite: attempts to get out of a sandbox, as data, and what makes them on this machine."""

from __future__ import annotations

from repotrial.sandbox._probe_suite._attempts import ATTEMPTS
from repotrial.sandbox._probe_suite._calls import CALLS, CallProgram
from repotrial.sandbox._probe_suite._model import Attempt, AttemptResult, ProbeReport
from repotrial.sandbox._probe_suite._run import (
    ProbeProgramError,
    build_probe_argv,
    execute_probe,
    parse_outcomes,
)
from repotrial.sandbox._probe_suite._scene import NEIGHBOR_PORT, Scene, open_scene

__all__ = [
    "ATTEMPTS",
    "CALLS",
    "NEIGHBOR_PORT",
    "Attempt",
    "AttemptResult",
    "CallProgram",
    "ProbeProgramError",
    "ProbeReport",
    "Scene",
    "build_probe_argv",
    "execute_probe",
    "open_scene",
    "parse_outcomes",
]
