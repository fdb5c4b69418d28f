"""Level L3c, by a container engine; what it does here is found out by a container.

The trial needs no image from anywhere: its root is empty but for links, and the host's own programs are
mounted into it.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

from repotrial._core.errors import MACHINE, RepoTrialError
from repotrial._core.words import Level
from repotrial.isolation._identity import find_identity
from repotrial.isolation._levels._back_end import (
    EVERY_LAYER,
    ISOLATION_LEVEL,
    BackEnd,
    LevelFinding,
    Missing,
    open_trial_place,
)
from repotrial.isolation._levels._container import ContainerEngine, ContainerSandbox, reap_containers
from repotrial.isolation._levels._container_plan import EngineHabits
from repotrial.isolation._levels._docker_api import EngineClient, EngineInfo
from repotrial.isolation._model import (
    SYSTEM_ROOTS,
    Bind,
    Capabilities,
    CommandSpec,
    DirectoryRoot,
    HostRoot,
    SandboxSpec,
)
from repotrial.isolation._resources._cgroups import CgroupVersion
from repotrial.syscalls import RecordSink
from repotrial.trace import Exited

_SECONDS: Final = 60
_INSTALL: Final = (
    "install Docker or podman, start it (`systemctl start docker`, `systemctl --user start podman.socket`),"
    " and let this user use its socket"
)
_ENGINE: Final = "see what the engine's own log says; a container of its own must start with these options"
_ROOTLESS_DOCKER: Final = "use podman, or Docker with root, so that programs inside can own the workspace"
_ROOTLESS_PODMAN: Final = "use podman with root: some releases without it change users' numbers over this API"
_CONFINED: Final = """\
while read -r key value; do
    case $key in
        Cap*) test "$value" = 0000000000000000 || exit 2 ;;
        NoNewPrivs:) test "$value" = 1 || exit 3 ;;
        Seccomp:) test "$value" = 2 || exit 4 ;;
    esac
done < /proc/self/status
while read -r name rest; do
    case $name in
        Inter-* | face | lo:) ;;
        *) exit 5 ;;
    esac
done < /proc/net/dev
(: > /refused) 2> /dev/null && exit 6
: > /workspace/made && : > /tmp/made
"""


@functools.cache
def find_engine(socket: Path | None = None) -> ContainerEngine | Missing:
    """The engine that listens, if it keeps its promises.

    Args:
        socket: Where an engine listens; by default the usual places are tried.
    """
    usual = _list_usual_sockets() if socket is None else (socket,)
    places = [path for path in usual if path.is_socket()]
    if not places:
        reason = "no container engine listens at " + ", ".join(map(str, usual))
        return Missing(level=Level.L3C, reason=reason, remedy=_INSTALL)
    # The first that listens is the one that the operator uses: another is not tried in its place.
    try:
        with open_trial_place(find_identity()) as spec:
            return _try_engine(EngineClient(places[0]), spec.workspace)
    except RepoTrialError as error:
        return Missing(level=Level.L3C, reason=f"{places[0]}: {error.message}", remedy=error.hint or _ENGINE)


def open_container(spec: SandboxSpec, engine: ContainerEngine | Missing) -> ContainerSandbox:
    """Open a sandbox through this engine.

    Raises:
        ISOLATION_LEVEL: There is no engine, or the specification has no image.
        SANDBOX_START: The engine refused something.
    """
    if isinstance(engine, Missing):
        raise ISOLATION_LEVEL.error(f"{engine.level}: {engine.reason}", hint=engine.remedy)
    if isinstance(spec.root, HostRoot):
        raise ISOLATION_LEVEL.error(
            f"{Level.L3C}: expected an image, found the machine's own files, which a container cannot run on",
            hint="Pin an image by its digest in the contract (`environment.image`).",
        )
    return ContainerSandbox(spec, engine)


def _list_usual_sockets() -> tuple[Path, ...]:
    own = Path("/run/user", str(os.getuid()))
    return (
        Path("/var/run/docker.sock"),
        Path("/run/podman/podman.sock"),
        own / "docker.sock",
        own / "podman" / "podman.sock",
    )


def _try_engine(client: EngineClient, workspace: Path) -> ContainerEngine | Missing:
    version, info = client.load_version(), client.load_info()
    if info.is_rootless and not version.is_podman:
        reason = f"{client.path}: Docker without root maps every user inside to another one outside"
        return Missing(level=Level.L3C, reason=reason, remedy=_ROOTLESS_DOCKER)
    reap_containers(client)
    habits = EngineHabits(is_mapped=info.is_rootless, fills_scratch=version.is_podman)
    engine = ContainerEngine(capabilities=_build_capabilities(info), client=client, habits=habits)
    _exercise(engine, workspace)
    return engine


def _build_capabilities(info: EngineInfo) -> Capabilities:
    versions: dict[str, CgroupVersion] = {"1": "cgroup-v1", "2": "cgroup-v2"}
    version = versions.get(info.cgroup_version)
    return Capabilities(
        level=Level.L3C,
        network="container",
        has_overlay=False,
        has_stages=False,
        syscall_audit="static",
        memory_limit=(version if info.memory_limit else None) or "none",
        cpu_meter=version or "none",
        disk_limit="polled",
        freezer=version or "none",
        has_images=True,
    )


def _exercise(engine: ContainerEngine, workspace: Path) -> None:
    """Use everything that the capabilities promise.

    Raises:
        RepoTrialError: Something does not hold.
    """
    root = workspace.parent / "merged"
    spec = SandboxSpec(
        workspace=workspace, root=DirectoryRoot(path=root), binds=_show_host(root), variables={"PATH": "/bin"}
    )
    with ContainerSandbox(spec, engine) as sandbox:
        result = sandbox.run(CommandSpec(argv=("/bin/sh", "-c", _CONFINED), timeout_seconds=_SECONDS))
        if result.exit != Exited(code=0):
            said = result.stderr.prefix.decode(errors="replace").strip()
            raise MACHINE.error(
                f"a container was not confined as asked: {result.exit} ({said})",
                hint=_ROOTLESS_PODMAN if engine.habits.is_mapped else None,
            )
        sandbox.freeze()
        sandbox.resume()


def _show_host(root: Path) -> tuple[Bind, ...]:
    """Fill an empty root with links like the host's, and say what to mount on the rest."""
    binds = []
    for path in map(Path, SYSTEM_ROOTS):
        target = root / path.relative_to("/")
        if path.is_symlink():
            target.symlink_to(path.readlink())
        elif path.is_dir():
            target.mkdir()
            binds.append(Bind(source=path, target=str(path)))
    return tuple(binds)


def _probe() -> LevelFinding:
    engine = find_engine()
    return engine if isinstance(engine, Missing) else engine.capabilities


def _open(spec: SandboxSpec, _sink: RecordSink | None) -> ContainerSandbox:
    return open_container(spec, find_engine())


BACK_ENDS: Final = (
    BackEnd(
        level=Level.L3C,
        probe=_probe,
        open=_open,
        promises=EVERY_LAYER,
        caution="a stage change or a timeout ends everything in the container; refused calls are not seen",
    ),
)
