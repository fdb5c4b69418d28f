"""The one door to a sandbox: the back ends that are registered, and opening by level."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import OFFERED_LEVELS, RETIRED_LEVELS, Level
from repotrial.isolation._levels import _back_ends
from repotrial.isolation._levels._back_end import ISOLATION_LEVEL, BackEnd, LevelFinding, Missing
from repotrial.isolation._model import Capabilities, DirectoryRoot, Sandbox, SandboxSpec
from repotrial.syscalls import RecordSink

ISOLATION_RETIRED = ErrorCode(
    "isolation-retired",
    UsageError,
    "The isolation level is named in old contracts and runs only; nothing can be run at it any more.",
    hint="Ask for a level that `repotrial doctor` lists.",
)


def open_sandbox(spec: SandboxSpec, *, level: Level, sink: RecordSink | None = None) -> Sandbox:
    """Open a sandbox of exactly this level; never of a weaker one.

    Args:
        spec: What is wanted.
        level: How strong.
        sink: Takes what the syscall supervisor sees, in a thread of its own.

    Raises:
        ISOLATION_RETIRED: The level is not offered any more.
        ISOLATION_LEVEL: This machine does not reach the level, or the level cannot give what is wanted.
        SANDBOX_START: It could not be started.
    """
    back_end = find_back_end(level)
    found = back_end.probe()
    if isinstance(found, Missing):
        raise ISOLATION_LEVEL.error(f"{level}: {found.reason}", hint=found.remedy)
    if problems := _check_fit(spec, found):
        raise ISOLATION_LEVEL.error(f"{level}: {'; '.join(problems)}")
    return back_end.open(spec, sink)


def probe_machine() -> tuple[LevelFinding, ...]:
    """What each level offers on this machine, or why there is none; strongest first."""
    return tuple(back_end.probe() for back_end in _load_back_ends().values())


def find_back_end(level: Level) -> BackEnd:
    """The back end of a level.

    Raises:
        ISOLATION_RETIRED: The level is not offered any more.
    """
    if level in RETIRED_LEVELS:
        weakest = OFFERED_LEVELS[-1]
        raise ISOLATION_RETIRED.error(
            f"{level}: this level is retired", hint=f"Use {weakest}, the next stronger level, or {Level.L3}."
        )
    return _load_back_ends()[level]


@cache
def _load_back_ends() -> Mapping[Level, BackEnd]:
    """What the modules in `_back_ends` registered, strongest first."""
    names = (module.name for module in pkgutil.iter_modules(_back_ends.__path__))
    modules = [importlib.import_module(f"{_back_ends.__name__}.{name}") for name in names]
    registered = {back_end.level: back_end for module in modules for back_end in module.BACK_ENDS}
    return {level: registered[level] for level in OFFERED_LEVELS}


def _check_fit(spec: SandboxSpec, capabilities: Capabilities) -> list[str]:
    """What of a specification a back end cannot give: what was expected, and what was found."""
    found = []
    if spec.overlay is not None and not capabilities.has_overlay:
        found.append("expected a copied workspace, found an overlay")
    if isinstance(spec.root, DirectoryRoot) and not capabilities.has_images:
        found.append("expected the machine's own files, found an image")
    if spec.test_tools and not capabilities.has_stages:
        found.append("expected no tools to mask until the test stage, found some")
    return found
