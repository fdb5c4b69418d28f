"""What this machine can do, found out by doing it.

Each capability is tried on a real sandbox in a scratch directory: options that a program lists and settings
that a kernel shows say little about what a security module, a container or an old file system lets through.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.errors import MachineError, RepoTrialError
from repotrial.sandbox._bubblewrap import MINIMUM_BUBBLEWRAP
from repotrial.sandbox._cgroups import CgroupSite, find_cgroup_site
from repotrial.sandbox._identity import Account
from repotrial.sandbox._label import build_label
from repotrial.sandbox._landlock import read_landlock_abi
from repotrial.sandbox._launcher import Launcher, open_default_launcher
from repotrial.sandbox._model import (
    Capabilities,
    CommandSpec,
    Level,
    OverlayMount,
    SandboxSpec,
    SyscallAudit,
)
from repotrial.sandbox._process import execute_program
from repotrial.sandbox._reaper import reap_leftovers
from repotrial.sandbox._session import BubblewrapSandbox, Engine
from repotrial.sandbox._syscalls import UnsupportedMachineError, find_machine
from repotrial.sandbox._workspace import remove_tree
from repotrial.trace import Exited

__all__ = ["Finding", "Missing", "Survey", "find_engine", "probe_machine", "survey_machine"]

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_VERSION: Final = re.compile(r"bubblewrap (\d+(?:\.\d+)*)")
_LISTENER_PORT: Final = 18080
_PROBE_SECONDS: Final = 30
_INSTALL: Final = (
    "install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
)
_USER_NAMESPACES: Final = (
    "allow user namespaces: sysctl user.max_user_namespaces above 0,"
    " kernel.unprivileged_userns_clone=1 where it exists, and on Ubuntu 24.04 and later an AppArmor profile"
    " that lets the interpreter and bwrap use `userns` (or kernel.apparmor_restrict_unprivileged_userns=0)"
)


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A level that this machine does not reach."""

    level: Level
    reason: str
    """What was tried and what came of it."""
    remedy: str
    """The exact way to get it."""


Finding: TypeAlias = Capabilities | Missing


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found out."""

    findings: tuple[Finding, ...]
    """Strongest level first."""
    engines: tuple[Engine, ...]
    """What opens a sandbox, for each level that has one."""
    site: CgroupSite
    landlock_abi: int
    bubblewrap: str | None
    version: tuple[int, ...]


def probe_machine() -> tuple[Finding, ...]:
    """What each level offers on this machine, or why there is none."""
    return survey_machine().findings


@functools.cache
def survey_machine() -> Survey:
    """Try everything; once for each process, since it takes a moment. Leftovers of the dead go first."""
    site = find_cgroup_site()
    reap_leftovers(site)
    bubblewrap = shutil.which("bwrap", path=_SEARCH_PATH)
    version = () if bubblewrap is None else _load_version(bubblewrap)
    engines: list[Engine] = []
    findings: list[Finding] = []
    for level in (Level.L3, Level.L2):
        problem = _find_obstacle(level, bubblewrap, version)
        if problem is None and bubblewrap is not None:
            attempt = _attempt(level, bubblewrap=bubblewrap, version=version, site=site)
            if isinstance(attempt, Engine):
                engines.append(attempt)
                findings.append(attempt.capabilities)
            else:
                findings.append(attempt)
        elif problem is not None:
            findings.append(problem)
    abi = read_landlock_abi()
    return Survey(
        findings=tuple(findings),
        engines=tuple(engines),
        site=site,
        landlock_abi=abi,
        bubblewrap=bubblewrap,
        version=version,
    )


def find_engine(level: Level) -> Engine | Missing:
    """What opens a sandbox of this level here."""
    survey = survey_machine()
    for engine in survey.engines:
        if engine.capabilities.level is level:
            return engine
    for finding in survey.findings:
        if isinstance(finding, Missing) and finding.level is level:
            return finding
    return Missing(
        level=level,
        reason=f"bubblewrap does not make sandboxes of level {level.value}",
        remedy="ask for another level",
    )


def _load_version(bubblewrap: str) -> tuple[int, ...]:
    finished = execute_program([bubblewrap, "--version"], variables={}, seconds=_PROBE_SECONDS)
    found = _VERSION.search(finished.stdout.decode(errors="replace"))
    return () if found is None else tuple(map(int, found[1].split(".")))


def _find_obstacle(level: Level, bubblewrap: str | None, version: tuple[int, ...]) -> Missing | None:
    """What makes trying pointless."""
    try:
        find_machine()
    except UnsupportedMachineError as error:
        return Missing(level=level, reason=error.message, remedy=error.hint)
    if bubblewrap is None:
        return Missing(level=level, reason="bwrap is not installed", remedy=_INSTALL)
    if version < MINIMUM_BUBBLEWRAP:
        found = ".".join(map(str, version)) or "an unknown version"
        return Missing(level=level, reason=f"bwrap is too old: {found}, needed 0.7", remedy=_INSTALL)
    if Path(bubblewrap).stat().st_mode & stat.S_ISUID:
        return Missing(
            level=level,
            reason=f"{bubblewrap} is setuid root: its sandboxes belong to root and cannot be entered",
            remedy=f"chmod u-s {bubblewrap}; and {_USER_NAMESPACES}",
        )
    return None


def _attempt(
    level: Level, *, bubblewrap: str, version: tuple[int, ...], site: CgroupSite
) -> Engine | Missing:
    """Try the strongest first: what a supervisor cannot do, a static filter may."""
    reason = ""
    for is_staged, audit in itertools.product(_STAGINGS[level], _AUDITS):
        engine = Engine(
            capabilities=_build_capabilities(level, site, audit),
            bubblewrap=bubblewrap,
            version=version,
            is_staged=is_staged,
            site=site,
        )
        try:
            _exercise(engine, open_default_launcher())
        except RepoTrialError as error:
            reason = reason or error.message
        else:
            return engine
    return Missing(level=level, reason=reason, remedy=_USER_NAMESPACES)


_AUDITS: Final[tuple[SyscallAudit, ...]] = ("notify", "static")
_STAGINGS: Final = {Level.L3: (True,), Level.L2: (True, False)}
"""A security module may let bubblewrap make namespaces, and not us."""


def _build_capabilities(level: Level, site: CgroupSite, audit: SyscallAudit) -> Capabilities:
    return Capabilities(
        level=level,
        network="namespace",
        has_overlay=level is Level.L3,
        has_stages=True,
        syscall_audit=audit,
        memory_limit=site.version("memory") or "polled",
        cpu_meter=site.version("cpu") or "sampled",
        disk_limit="polled",
        freezer=site.version("freezer") or "signals",
        has_images=True,
    )


def _exercise(engine: Engine, launcher: Launcher) -> None:
    """Use everything that the capabilities promise.

    Raises:
        RepoTrialError: Something does not hold.
    """
    with (
        _open_scratch(engine, launcher.identity) as spec,
        BubblewrapSandbox(spec, engine, launcher=launcher) as sandbox,
    ):
        _expect(sandbox, "test -f base && : > made", is_success=True)
        sandbox.enter_stage("read")
        _expect(sandbox, ": > refused", is_success=False)
        sandbox.enter_stage("write")
        sandbox.freeze()
        sandbox.resume()
        _expect(sandbox, ": > again", is_success=True)


def _expect(sandbox: BubblewrapSandbox, script: str, *, is_success: bool) -> None:
    command = CommandSpec(argv=("/bin/sh", "-c", script), timeout_seconds=_PROBE_SECONDS)
    result = sandbox.run(command)
    if (result.exit == Exited(code=0)) is not is_success:
        said = result.stderr.prefix.decode(errors="replace").strip()
        raise _ProbeFailedError(f"`{script}` inside ended with {result.exit} ({said})")


class _ProbeFailedError(MachineError):
    """Something inside a trial sandbox did not go as it must; never leaves this module."""


@contextlib.contextmanager
def _open_scratch(engine: Engine, owner: Account) -> Iterator[SandboxSpec]:
    """A workspace to try things on, made the way that the level allows."""
    # Labelled, so that the next start can remove it if this one is killed.
    place = Path(tempfile.gettempdir(), build_label()).resolve()
    place.mkdir(0o755)
    try:
        lower = place / "lower"
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir()
        (lower / "base").touch()
        if not os.geteuid():
            for path in (*place.iterdir(), lower / "base"):
                os.chown(path, owner.uid, owner.gid)
        overlay = OverlayMount(
            lower=lower, upper=place / "upper", work=place / "work", target=place / "merged"
        )
        yield SandboxSpec(
            workspace=lower,
            overlay=overlay if engine.capabilities.has_overlay else None,
            listener_port=_LISTENER_PORT,
        )
    finally:
        remove_tree(place)
