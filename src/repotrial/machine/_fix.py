"""Installing what a machine lacks for isolation, through its own package manager: only when asked to."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.errors import MachineError
from repotrial.environment import SYSTEM_PATH, execute_program
from repotrial.machine._doctor import DoctorReport, execute_doctor

FixOutcome: TypeAlias = Literal["present", "installed", "to-be-run", "failed"]
"""`to-be-run`: with more rights; the command says how."""

_SECONDS: Final = 900
_SHOWN: Final = 500
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class _Manager(msgspec.Struct, frozen=True, kw_only=True):
    program: str
    install: tuple[str, ...]
    refresh: tuple[str, ...] = ()
    """Fetches the list of packages, where a machine may have none yet."""


_MANAGERS: Final = (
    _Manager(
        program="apt-get",
        install=("install", "-y", "--no-install-recommends", "bubblewrap"),
        refresh=("update",),
    ),
    _Manager(program="dnf", install=("install", "-y", "bubblewrap")),
    _Manager(program="apk", install=("add", "bubblewrap"), refresh=("update",)),
    _Manager(program="pacman", install=("-S", "--noconfirm", "--needed", "bubblewrap")),
    _Manager(
        program="zypper",
        install=("--non-interactive", "install", "bubblewrap"),
        refresh=("--non-interactive", "refresh"),
    ),
)


class FixAction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was put right, or could be."""

    what: str
    outcome: FixOutcome
    command: str = ""
    """The command that was run, or has to be."""
    said: str = ""
    """What went wrong."""


class DoctorFix(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `repotrial doctor --fix`."""

    actions: tuple[FixAction, ...]
    report: DoctorReport
    """What the machine can do now."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left that this command knows how to put right."""
        return all(action.outcome in {"present", "installed"} for action in self.actions)


def execute_doctor_fix(variables: Mapping[str, str]) -> DoctorFix:
    """Install what may be installed, then examine the machine.

    Args:
        variables: The operator's environment; only its proxies are handed on.
    """
    action = install_bubblewrap(variables, is_root=not os.geteuid())
    return DoctorFix(actions=(action,), report=execute_doctor())


def install_bubblewrap(
    variables: Mapping[str, str], *, is_root: bool, search_path: str = SYSTEM_PATH
) -> FixAction:
    """See that bubblewrap is there; install it as root, otherwise say how."""
    what = "bubblewrap"
    if shutil.which("bwrap", path=search_path) is not None:
        return FixAction(what=what, outcome="present")
    for manager in _MANAGERS:
        program = shutil.which(manager.program, path=search_path)
        if program is None:
            continue
        command = shlex.join([manager.program, *manager.install])
        if not is_root:
            return FixAction(what=what, outcome="to-be-run", command=f"sudo {command}")
        said = _install(program, manager, variables, search_path)
        if said is None and shutil.which("bwrap", path=search_path) is None:
            said = "it ended well, yet there is no bwrap"
        outcome: FixOutcome = "installed" if said is None else "failed"
        return FixAction(what=what, outcome=outcome, command=command, said=said or "")
    names = ", ".join(manager.program for manager in _MANAGERS)
    return FixAction(
        what=what,
        outcome="failed",
        said=f"expected one of {names}, found none: install bubblewrap 0.7 or later by hand",
    )


def _install(program: str, manager: _Manager, variables: Mapping[str, str], search_path: str) -> str | None:
    """What went wrong; None for nothing."""
    said = _run([program, *manager.install], variables, search_path)
    if said is not None and manager.refresh:
        _run([program, *manager.refresh], variables, search_path)
        said = _run([program, *manager.install], variables, search_path)
    return said


def _run(argv: list[str], variables: Mapping[str, str], search_path: str) -> str | None:
    environment = {
        "PATH": search_path,
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        **{name: variables[name] for name in _PROXIES if name in variables},
    }
    try:
        finished = execute_program(argv, variables=environment, seconds=_SECONDS)
    except MachineError as error:
        return error.message
    if not finished.status:
        return None
    text = (finished.stderr or finished.stdout).decode(errors="replace").strip()
    return f"exit status {finished.status}: {neutralize(text[-_SHOWN:], max_characters=_SHOWN)}"
