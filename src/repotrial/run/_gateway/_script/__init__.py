"""A canned model: a script that answers in place of a provider, for tests, demonstrations and attacks."""

from __future__ import annotations

from repotrial.run._gateway._script._load import LoadedScript, ScriptInvalidError, load_script, parse_script
from repotrial.run._gateway._script._model import (
    SCRIPT_SCHEMA,
    EditStep,
    FinishStep,
    RawStep,
    ReadStep,
    SayStep,
    Script,
    ScriptedUsage,
    ShellStep,
    Step,
    WriteStep,
)
from repotrial.run._gateway._script._plan import Plan, plan_turn
from repotrial.run._gateway._script._schema import build_script_schema
from repotrial.run._gateway._script._upstream import ScriptUpstream

__all__ = [
    "SCRIPT_SCHEMA",
    "EditStep",
    "FinishStep",
    "LoadedScript",
    "Plan",
    "RawStep",
    "ReadStep",
    "SayStep",
    "Script",
    "ScriptInvalidError",
    "ScriptUpstream",
    "ScriptedUsage",
    "ShellStep",
    "Step",
    "WriteStep",
    "build_script_schema",
    "load_script",
    "parse_script",
    "plan_turn",
]
