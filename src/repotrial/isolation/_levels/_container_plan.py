"""What an engine is asked for, as a pure function of what is wanted: never a privilege."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from repotrial._core.words import Stage
from repotrial.isolation._identity import Account
from repotrial.isolation._model import WORKSPACE, Bind, SandboxSpec

CONTAINER_LABEL: Final = "repotrial.sandbox"
"""Its value says which harness made the container."""

_MEGABYTE: Final = 1024**2
_SMALL_BYTES: Final = 16 * _MEGABYTE
_OWN_PROCESSES: Final = 8
_USER_PROCESSES: Final = 4096
"""Of the whole user, on the host; what counts for one container is its control group."""
_WAITERS: Final = (65532, 65531)
_WAIT: Final = "while :; do sleep 3600; done"
"""Waits, and buries what it inherits meanwhile."""


class EngineHabits(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine does unless it is told not to."""

    is_mapped: bool = False
    """Gives users inside other numbers outside (podman without root)."""
    fills_scratch: bool = False
    """Copies what the image has there into scratch directories, modes included (podman)."""


def build_container(
    spec: SandboxSpec, *, image: str, stage: Stage, owner: Account, label: str, habits: EngineHabits
) -> dict[str, Any]:
    """The request for a container in which a first process only waits.

    Args:
        spec: What is wanted.
        image: By the engine's id, which is a digest.
        stage: Whether the workspace is writable.
        owner: The account of programs inside; the first process has another, so that they cannot touch it.
        label: Who asks.
        habits: What the engine would do otherwise.
    """
    waiter = next(uid for uid in _WAITERS if uid != owner.uid)
    return {
        "Image": image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", _WAIT],
        "User": f"{waiter}:{waiter}",
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": {CONTAINER_LABEL: label},
        "NetworkDisabled": True,
        "AttachStdin": False,
        "OpenStdin": False,
        "Tty": False,
        "HostConfig": {
            **_build_confinement(),
            **({"UsernsMode": "keep-id"} if habits.is_mapped else {}),
            **_build_limits(spec),
            "Mounts": _build_mounts(spec, stage),
            "Tmpfs": _build_scratch(spec, habits),
            "ShmSize": _SMALL_BYTES,
        },
    }


def build_exec(
    argv: tuple[str, ...], *, cwd: str, variables: dict[str, str], owner: Account
) -> dict[str, Any]:
    """The request for a program in such a container."""
    return {
        "Cmd": [*argv],
        "WorkingDir": cwd,
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "User": f"{owner.uid}:{owner.gid}",
        "Privileged": False,
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
    }


def _build_confinement() -> dict[str, Any]:
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "IpcMode": "private",
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
    }


def _build_limits(spec: SandboxSpec) -> dict[str, Any]:
    limits = spec.limits
    memory = limits.memory_mb * _MEGABYTE
    ceilings = {
        "core": 0,
        "fsize": limits.file_mb * _MEGABYTE,
        "nofile": limits.open_files,
        "nproc": max(_USER_PROCESSES, limits.processes),
    }
    if limits.cpu_seconds is not None:
        ceilings["cpu"] = limits.cpu_seconds
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": limits.processes + _OWN_PROCESSES,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ceilings.items()],
    }


def _build_mounts(spec: SandboxSpec, stage: Stage) -> list[dict[str, Any]]:
    workspace = Bind(source=spec.workspace, target=WORKSPACE, is_writable=stage != "read")
    # A mount hides what was mounted below it before, so outer ones come first.
    shown = sorted((workspace, *spec.binds), key=lambda bind: bind.target.count("/"))
    return [
        {
            "Type": "bind",
            "Source": str(bind.source),
            "Target": bind.target,
            "ReadOnly": not bind.is_writable,
            "BindOptions": {"Propagation": "rprivate"},
        }
        for bind in shown
    ]


def list_scratch(spec: SandboxSpec) -> dict[str, int]:
    """Where scratch directories are, and how large; the image must have them open to everybody, since some
    runtimes give them the mode of what is below.
    """
    return {
        "/tmp": spec.limits.tmp_mb * _MEGABYTE,  # noqa: S108 - inside
        "/var/tmp": _SMALL_BYTES,  # noqa: S108 - inside
        "/run": _SMALL_BYTES,
        **{own.target: own.size_mb * _MEGABYTE for own in spec.scratch},
    }


def _build_scratch(spec: SandboxSpec, habits: EngineHabits) -> dict[str, str]:
    options = "rw,exec,nosuid,nodev,mode=1777" + (",notmpcopyup" if habits.fills_scratch else "")
    return {target: f"{options},size={size}" for target, size in list_scratch(spec).items()}
