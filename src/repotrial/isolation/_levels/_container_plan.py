"""What an engine is asked for, as a pure function of what is wanted: never a privilege."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.words import Stage
from repotrial.isolation._identity import Account
from repotrial.isolation._levels._docker_api import CONTAINER_ENGINE, EngineClient
from repotrial.isolation._model import WORKSPACE, Bind, SandboxSpec
from repotrial.syscalls import machine_platform

_REPOSITORY: Final = "localhost/repotrial"
_MOUNT_POINTS: Final = ("dev", "proc", "sys", "workspace")
"""What a container mounts; a root that is read-only must have them already."""


def load_root_image(client: EngineClient, root: Path, *, scratch: Iterable[str]) -> str:
    """The engine's id of an image with this root; loaded if it is not there yet.

    Its tag is the digest of its one layer, and what the engine has under it is checked against that: the
    same content is loaded once, and nothing else is taken for it.

    Args:
        client: The engine.
        root: The unpacked image.
        scratch: Directories that everybody can write to, where something of the container's own is mounted.

    Raises:
        CONTAINER_ENGINE: The engine does not take it, or has something else in its place.
    """
    with tempfile.TemporaryFile() as layer:
        _write_layer(root, layer, {path.lstrip("/") for path in scratch})
        layer.seek(0)
        digest = _digest(layer)
        name = f"{_REPOSITORY}:{digest.removeprefix('sha256:')}"
        image = client.find_image(name)
        if image is None:
            with tempfile.TemporaryFile() as archive:
                _write_archive(archive, layer, digest=digest, name=name)
                archive.seek(0)
                client.load_image(archive)
            image = client.find_image(name)
    if image is None or image.root_fs.layers != [digest]:
        found = "nothing" if image is None else f"layers {image.root_fs.layers}"
        raise CONTAINER_ENGINE.error(f"{name}: expected an image of one layer {digest}, found {found}")
    return image.id


def _write_layer(root: Path, layer: IO[bytes], scratch: AbstractSet[str]) -> None:
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            member = archive.gettarinfo(str(path), name)
            # Sockets have no form in an archive; devices are no part of an unpacked image.
            if member is None or member.isdev() or name in scratch:  # type: ignore[redundant-expr]
                continue
            _anonymize(member)
            if member.isreg():
                with path.open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)
        for name in sorted({*scratch, *(name for name in _MOUNT_POINTS if not (root / name).is_dir())}):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if name in scratch else 0o755
            archive.addfile(member)


def _anonymize(member: tarfile.TarInfo) -> None:
    """Leave out what says nothing about the content: who unpacked it, and when."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    # Of files it stays: compiled Python looks at it.
    member.mtime = int(member.mtime) if member.isreg() else 0


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    stream.seek(0)
    return f"sha256:{digest}"


def _write_archive(archive: IO[bytes], layer: IO[bytes], *, digest: str, name: str) -> None:
    system, architecture = machine_platform().split("/")
    config = json.dumps(
        {
            "os": system,
            "architecture": architecture,
            "created": "1970-01-01T00:00:00Z",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    ).encode()
    config_name = f"{digest_bytes(config).removeprefix('sha256:')}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as file:
        for member_name, content in ((config_name, config), ("manifest.json", manifest)):
            member = tarfile.TarInfo(member_name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo("layer.tar")
        member.size = layer.seek(0, io.SEEK_END)
        layer.seek(0)
        file.addfile(member, layer)


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
