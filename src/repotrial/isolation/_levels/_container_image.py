"""An unpacked root as an image that an engine knows by its content."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, Final

from repotrial._core.digest import digest_bytes
from repotrial.isolation._launch_server._syscalls import machine_platform
from repotrial.isolation._levels._docker_api import CONTAINER_ENGINE, EngineClient

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
