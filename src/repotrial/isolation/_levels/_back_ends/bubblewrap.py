"""Levels L3 and L2, by bubblewrap.

Each capability is tried on a real sandbox in a scratch directory: options that a program lists and settings
that a kernel shows say little about what a security module, a container or an old file system lets through.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from repotrial._core.errors import MACHINE, MachineError, RepoTrialError
from repotrial._core.words import Level
from repotrial.isolation._levels._back_end import (
    EVERY_LAYER,
    ISOLATION_LEVEL,
    BackEnd,
    LevelFinding,
    Missing,
    open_trial_place,
)
from repotrial.isolation._levels._bubblewrap import MINIMUM_BUBBLEWRAP, Engine
from repotrial.isolation._levels._launcher import Launcher, open_default_launcher
from repotrial.isolation._levels._session import BubblewrapSandbox
from repotrial.isolation._model import (
    AccountUse,
    Capabilities,
    CommandSpec,
    Sandbox,
    SandboxSpec,
    SharedTree,
    SyscallAudit,
)
from repotrial.isolation._resources._cgroups import CgroupSite
from repotrial.isolation._resources._reaper import load_site
from repotrial.syscalls import RecordSink, find_machine
from repotrial.trace import Exited

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


@functools.cache
def find_engine(level: Level) -> Engine | Missing:
    """What opens a sandbox of this level here, by bubblewrap."""
    site = load_site()
    bubblewrap, version = find_bubblewrap()
    obstacle = _find_obstacle(level, bubblewrap, version)
    if obstacle is not None or bubblewrap is None:
        return obstacle or Missing(level=level, reason="bwrap is not installed", remedy=_INSTALL)
    return _attempt(level, bubblewrap=bubblewrap, version=version, site=site)


@functools.cache
def find_bubblewrap() -> tuple[str | None, tuple[int, ...]]:
    bubblewrap = shutil.which("bwrap", path=_SEARCH_PATH)
    return bubblewrap, () if bubblewrap is None else _load_version(bubblewrap)


def _load_version(bubblewrap: str) -> tuple[int, ...]:
    try:
        finished = subprocess.run(
            [bubblewrap, "--version"], env={}, capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = _VERSION.search(finished.stdout.decode(errors="replace"))
    return () if found is None else tuple(map(int, found[1].split(".")))


def _find_obstacle(level: Level, bubblewrap: str | None, version: tuple[int, ...]) -> Missing | None:
    """What makes trying pointless."""
    try:
        find_machine()
    except MachineError as error:  # `unsupported-machine`
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
    for is_staged, audit, apart in itertools.product(_STAGINGS[level], _AUDITS, _list_apart()):
        if apart != _TOGETHER and not is_staged:
            continue
        engine = Engine(
            capabilities=_build_capabilities(level, site, audit, apart),
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


class _Apart(NamedTuple):
    """What keeps sandboxes apart over trees and accounts that they would otherwise share."""

    shared_tree: SharedTree
    account: AccountUse


_TOGETHER: Final = _Apart("bind", "shared")


def _list_apart() -> tuple[_Apart, ...]:
    """What to try, the best first: only root has accounts to give away."""
    own = () if os.geteuid() else (_Apart("overlay", "own"), _Apart("bind", "own"))
    return (*own[:1], _Apart("overlay", "shared"), *own[1:], _TOGETHER)


def _build_capabilities(level: Level, site: CgroupSite, audit: SyscallAudit, apart: _Apart) -> Capabilities:
    return Capabilities(
        level=level,
        network="namespace",
        has_overlay=level is Level.L3,
        has_stages=True,
        syscall_audit=audit,
        memory_limit=site.version("memory") or "polled",
        cpu_meter=site.version("cpu") or "sampled",
        disk_limit="polled",
        shared_tree=apart.shared_tree,
        cpu_share=site.version("share") or "none",
        account=apart.account,
        freezer=site.version("freezer") or "signals",
        has_images=True,
    )


def _exercise(engine: Engine, launcher: Launcher) -> None:
    """Use everything that the capabilities promise.

    Raises:
        RepoTrialError: Something does not hold.
    """
    with (
        open_trial_place(launcher.identity, has_overlay=engine.capabilities.has_overlay) as spec,
        BubblewrapSandbox(
            msgspec.structs.replace(spec, listener_port=_LISTENER_PORT), engine, launcher=launcher
        ) as sandbox,
    ):
        _expect(sandbox, "test -f base && : > made", is_success=True)
        if engine.capabilities.shared_tree == "overlay":
            _expect(sandbox, "grep -q ' /usr .* - overlay ' /proc/self/mountinfo", is_success=True)
        sandbox.enter_stage("read")
        _expect(sandbox, ": > refused", is_success=False)
        sandbox.enter_stage("write")
        sandbox.freeze()
        sandbox.resume()
        _expect(sandbox, ": > again", is_success=True)


def _expect(sandbox: Sandbox, script: str, *, is_success: bool) -> None:
    command = CommandSpec(argv=("/bin/sh", "-c", script), timeout_seconds=_PROBE_SECONDS)
    result = sandbox.run(command)
    if (result.exit == Exited(code=0)) is not is_success:
        said = result.stderr.prefix.decode(errors="replace").strip()
        raise MACHINE.error(f"`{script}` inside ended with {result.exit} ({said})")


def _probe(level: Level) -> LevelFinding:
    engine = find_engine(level)
    return engine if isinstance(engine, Missing) else engine.capabilities


def _open(level: Level, spec: SandboxSpec, sink: RecordSink | None) -> BubblewrapSandbox:
    engine = find_engine(level)
    if isinstance(engine, Missing):
        raise ISOLATION_LEVEL.error(f"{level}: {engine.reason}", hint=engine.remedy)
    return BubblewrapSandbox(spec, engine, launcher=open_default_launcher(), sink=sink)


BACK_ENDS: Final = tuple(
    BackEnd(
        level=level,
        probe=functools.partial(_probe, level),
        open=functools.partial(_open, level),
        promises=EVERY_LAYER,
    )
    for level in _STAGINGS
)
