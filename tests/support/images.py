"""OCI images made by the tests themselves: layers member by member, hostile ones included."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from repotrial._core.digest import digest_bytes
from repotrial.syscalls import machine_platform

OCI = "application/vnd.oci.image"
Compression = Literal["gzip", "plain", "zstd"]


def file(name: str, content: bytes = b"", *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, content


def directory(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info, b""


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info, b""


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.LNKTYPE, target
    return info, b""


def special(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.devmajor, info.devminor = kind, 1, 3
    return info, b""


def build_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class ImageBuilder:
    """An OCI layout in the making; every part can be replaced by a wrong one before it is written."""

    def __init__(self, *, platform: str | None = None) -> None:
        self.blobs: dict[str, bytes] = {}
        self.layers: list[dict[str, Any]] = []
        self.diff_ids: list[str] = []
        self.os, self.architecture = (platform or machine_platform()).split("/")
        self.run: dict[str, Any] = {
            "Env": ["PATH=/bin:/usr/bin", "LANG=C"],
            "WorkingDir": "/srv",
            "User": "app",
            "Entrypoint": ["/bin/false"],
        }

    def add_blob(self, data: bytes) -> str:
        digest = digest_bytes(data)
        self.blobs[digest] = data
        return digest

    def add_layer(
        self, *members: tuple[tarfile.TarInfo, bytes], compression: Compression = "gzip", tar: bytes = b""
    ) -> ImageBuilder:
        plain = tar or build_tar(members)
        data = gzip.compress(plain, mtime=0) if compression == "gzip" else plain
        suffix = "" if compression == "plain" else f"+{compression}"
        digest = self.add_blob(data)
        self.layers.append({"mediaType": f"{OCI}.layer.v1.tar{suffix}", "digest": digest, "size": len(data)})
        self.diff_ids.append(digest_bytes(plain))
        return self

    def add_manifest(self) -> dict[str, Any]:
        """Finish the image so far; returns its descriptor."""
        config = json.dumps(
            {
                "os": self.os,
                "architecture": self.architecture,
                "config": self.run,
                "rootfs": {"type": "layers", "diff_ids": self.diff_ids},
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "config": {
                "mediaType": f"{OCI}.config.v1+json",
                "digest": self.add_blob(config),
                "size": len(config),
            },
            "layers": self.layers,
        }
        return self.describe(
            json.dumps(manifest).encode(),
            "manifest",
            platform={"os": self.os, "architecture": self.architecture},
        )

    def describe(self, data: bytes, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "mediaType": f"{OCI}.{kind}.v1+json",
            "digest": self.add_blob(data),
            "size": len(data),
            **more,
        }

    def files(self, *descriptors: dict[str, Any]) -> dict[str, bytes]:
        index = {"schemaVersion": 2, "manifests": list(descriptors) or [self.add_manifest()]}
        return {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps(index).encode(),
            **{f"blobs/sha256/{digest[7:]}": data for digest, data in self.blobs.items()},
        }

    def write_layout(self, path: Path, *descriptors: dict[str, Any]) -> Path:
        for name, data in self.files(*descriptors).items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return path

    def write_docker_archive(self, path: Path, *tags: str, shared_layers: bool = False) -> Path:
        """As `docker save` writes it; with shared layers as links, as it does for images of one base."""
        self.add_manifest()
        config = next(data for data in reversed(self.blobs.values()) if b'"rootfs"' in data)
        members, names = [], []
        for number, layer in enumerate(self.layers):
            name = f"{number:064x}/layer.tar"
            content = self.blobs[layer["digest"]]
            if shared_layers:
                members += [file(f"{number}.tar", content), symlink(name, f"../{number}.tar")]
            else:
                members.append(file(name, content))
            names.append(name)
        config_name = f"{digest_bytes(config)[7:]}.json"
        entry = {"Config": config_name, "RepoTags": list(tags), "Layers": names}
        members.append(file(config_name, config))
        members.append(file("manifest.json", json.dumps([entry]).encode()))
        path.write_bytes(build_tar(members))
        return path

    def write_archive(self, path: Path, *descriptors: dict[str, Any]) -> Path:
        members = [file(name, data) for name, data in self.files(*descriptors).items()]
        path.write_bytes(build_tar(members))
        return path
