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
from typing import Final

import msgspec

from repotrial._core.errors import MachineError, RepoTrialError
from repotrial.sandbox._environment._process import execute_program
from repotrial.sandbox._identity import Account, find_identity
from repotrial.sandbox._label import build_label
from repotrial.sandbox._launch_server._landlock import read_landlock_abi
from repotrial.sandbox._launch_server._syscalls import UnsupportedMachineError, find_machine
from repotrial.sandbox._levels._bubblewrap import MINIMUM_BUBBLEWRAP
from repotrial.sandbox._levels._container import ContainerEngine
from repotrial.sandbox._levels._landlock_sandbox import (
    LandlockSandbox,
    build_landlock_capabilities,
    find_landlock_obstacle,
)
from repotrial.sandbox._levels._launcher import Launcher, open_default_launcher
from repotrial.sandbox._levels._plain import PLAIN_CAPABILITIES
from repotrial.sandbox._levels._session import BubblewrapSandbox, Engine
from repotrial.sandbox._machine._finding import Finding, Missing
from repotrial.sandbox._machine._probe_container import probe_engines
from repotrial.sandbox._machine._reaper import reap_leftovers
from repotrial.sandbox._model import (
    Capabilities,
    CommandSpec,
    Level,
    OverlayMount,
    Sandbox,
    SandboxSpec,
    SyscallAudit,
)
from repotrial.sandbox._resources._cgroups import CgroupSite, find_cgroup_site
from repotrial.sandbox._workspace import remove_tree
from repotrial.trace import Exited

__all__ = [
    "Finding",
    "Missing",
    "Survey",
    "find_container_engine",
    "find_engine",
    "find_landlock",
    "load_site",
    "probe_machine",
    "survey_machine",
]

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_VERSION: Final = re.compile(r"bubblewrap (\d+(?:\.\d+)*)")
_LISTENER_PORT: Final = 18080
_PROBE_SECONDS: Final = 30
_INSTALL: Final = (
    "install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
)
_LANDLOCK: Final = (
    "Linux 6.12 or later (6.2 for a harness that is root), with `landlock` in the list of security modules"
    " (`lsm=` on the kernel's command line)"
)
_USER_NAMESPACES: Final = (
    "allow user namespaces: sysctl user.max_user_namespaces above 0,"
    " kernel.unprivileged_userns_clone=1 where it exists, and on Ubuntu 24.04 and later an AppArmor profile"
    " that lets the interpreter and bwrap use `userns` (or kernel.apparmor_restrict_unprivileged_userns=0)"
)


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
    """Try every level; once for each process, since it takes a moment."""
    bubblewrap, version = _find_bubblewrap()
    attempts = [find_engine(level) for level in (Level.L3, Level.L2)]
    containers = find_container_engine()
    found = (attempts[0], containers, attempts[1], find_landlock(), PLAIN_CAPABILITIES)
    return Survey(
        findings=tuple(
            item if isinstance(item, Capabilities | Missing) else item.capabilities for item in found
        ),
        engines=tuple(attempt for attempt in attempts if isinstance(attempt, Engine)),
        site=load_site(),
        landlock_abi=read_landlock_abi(),
        bubblewrap=bubblewrap,
        version=version,
    )


@functools.cache
def load_site() -> CgroupSite:
    """Where control groups can be made; leftovers of the dead go first."""
    site = find_cgroup_site()
    reap_leftovers(site)
    return site


@functools.cache
def find_engine(level: Level) -> Engine | Missing:
    """What opens a sandbox of this level here, by bubblewrap."""
    if level not in _STAGINGS:
        return Missing(
            level=level,
            reason=f"bubblewrap does not make sandboxes of level {level.value}",
            remedy="ask for another level",
        )
    site = load_site()
    bubblewrap, version = _find_bubblewrap()
    obstacle = _find_obstacle(level, bubblewrap, version)
    if obstacle is not None or bubblewrap is None:
        return obstacle or Missing(level=level, reason="bwrap is not installed", remedy=_INSTALL)
    return _attempt(level, bubblewrap=bubblewrap, version=version, site=site)


@functools.cache
def find_landlock() -> Capabilities | Missing:
    """What level L1 offers here."""
    site = load_site()
    obstacle = find_landlock_obstacle(read_landlock_abi(), is_root=not os.geteuid())
    if obstacle is None:
        try:
            find_machine()
            _exercise_landlock(site)
        except UnsupportedMachineError as error:
            return Missing(level=Level.L1, reason=error.message, remedy=error.hint)
        except RepoTrialError as error:
            obstacle = error.message
        else:
            return build_landlock_capabilities(site)
    return Missing(level=Level.L1, reason=obstacle, remedy=_LANDLOCK)


@functools.cache
def find_container_engine(socket: Path | None = None) -> ContainerEngine | Missing:
    """What opens containers here.

    Args:
        socket: Where an engine listens; by default the usual places are tried.
    """
    with _open_scratch(find_identity()) as spec:
        return probe_engines(() if socket is None else (socket,), spec.workspace)


@functools.cache
def _find_bubblewrap() -> tuple[str | None, tuple[int, ...]]:
    bubblewrap = shutil.which("bwrap", path=_SEARCH_PATH)
    return bubblewrap, () if bubblewrap is None else _load_version(bubblewrap)


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
        _open_scratch(launcher.identity, has_overlay=engine.capabilities.has_overlay) as spec,
        BubblewrapSandbox(
            msgspec.structs.replace(spec, listener_port=_LISTENER_PORT), engine, launcher=launcher
        ) as sandbox,
    ):
        _expect(sandbox, "test -f base && : > made", is_success=True)
        sandbox.enter_stage("read")
        _expect(sandbox, ": > refused", is_success=False)
        sandbox.enter_stage("write")
        sandbox.freeze()
        sandbox.resume()
        _expect(sandbox, ": > again", is_success=True)


def _exercise_landlock(site: CgroupSite) -> None:
    """The same for level L1; rights change from command to command.

    Raises:
        RepoTrialError: Something does not hold.
    """
    with _open_scratch(find_identity()) as spec, LandlockSandbox(spec, site=site) as sandbox:
        outside = spec.workspace.parent / "upper"
        _expect(sandbox, 'test -f base && : > made && : > "$TMPDIR/own"', is_success=True)
        _expect(sandbox, f"ls '{outside}'", is_success=False)
        _expect(sandbox, f": > '{outside}/refused'", is_success=False)
        sandbox.enter_stage("read")
        _expect(sandbox, ": > refused", is_success=False)


def _expect(sandbox: Sandbox, script: str, *, is_success: bool) -> None:
    command = CommandSpec(argv=("/bin/sh", "-c", script), timeout_seconds=_PROBE_SECONDS)
    result = sandbox.run(command)
    if (result.exit == Exited(code=0)) is not is_success:
        said = result.stderr.prefix.decode(errors="replace").strip()
        raise _ProbeFailedError(f"`{script}` inside ended with {result.exit} ({said})")


class _ProbeFailedError(MachineError):
    """Something inside a trial sandbox did not go as it must; never leaves this module."""


@contextlib.contextmanager
def _open_scratch(owner: Account, *, has_overlay: bool = False) -> Iterator[SandboxSpec]:
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
        yield SandboxSpec(workspace=lower, overlay=overlay if has_overlay else None)
    finally:
        remove_tree(place)
