#!/usr/bin/env python3
"""Make an image of this machine's own programs: bash, the usual small tools, Python with its standard library.

    make_image.py IMAGE.tar             an oci-archive
    make_image.py IMAGE.tar --contract DIR
                                        and the example textkit-wide-chars with it as its environment, in DIR

No daemon and no network are needed. Real work wants a pinned image from a registry; this one shows how an image
is named and used, and is what the tests run on. It is small on purpose: programs, the libraries that the loader
finds for them, nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

EXAMPLE = Path(__file__).parent / "contracts/textkit-wide-chars"
PROGRAMS = (
    *("sh", "bash", "env", "cat", "ls", "dirname", "realpath", "mkdir", "rm", "cp", "mv"),
    *("sed", "grep", "true", "false", "sleep", "touch", "id"),
)
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HOST_LINES = re.compile(r'^image = "host"\ntools = .*\n', re.MULTILINE)
OCI = "application/vnd.oci.image"


def find_python() -> tuple[Path, Path]:
    """An interpreter and its standard library: the system's, or the one that runs this."""
    question = "import sys, sysconfig; print(sys.version_info >= (3, 11), sysconfig.get_path('stdlib'))"
    system = Path("/usr/bin/python3")
    if system.exists():
        said = subprocess.run([system, "-I", "-c", question], capture_output=True, text=True, check=True)
        is_new, library = said.stdout.split()
        if is_new == "True":
            return system.resolve(), Path(library)
    return Path(os.path.realpath(sys.executable)), Path(sysconfig.get_path("stdlib"))


def list_libraries(program: Path) -> set[Path]:
    """What the loader finds for a program, the loader itself included."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", said)}


def list_files() -> dict[str, Path]:
    """What goes in, by its place inside."""
    python, library = find_python()
    files: dict[str, Path] = {}
    binaries = {python}
    for name in PROGRAMS:
        found = shutil.which(name, path="/usr/bin:/bin")
        if found is None:
            sys.exit(f"make_image.py: expected the program {name}, found none")
        files[f"usr/bin/{name}"] = Path(found)
        binaries.add(Path(found))
    for path in sorted(library.rglob("*")):
        parts = set(path.relative_to(library).parts)
        if path.is_file() and not parts & LEFT_OUT and not any(part.startswith("config-") for part in parts):
            files[str(path).lstrip("/")] = path
            binaries |= {path} if path.suffix == ".so" else set()
    files[str(python).lstrip("/")] = python
    for name in ("python3", "python"):
        files.setdefault(f"usr/bin/{name}", python)
    for binary in sorted(binaries):
        files |= {str(path).lstrip("/"): path for path in list_libraries(binary)}
    return files


def build_layer() -> bytes:
    """The same bytes for the same files, whenever it is made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        # As a merged system has it; the loader is asked for by its name in /lib64.
        links = {name: f"usr/{name}" for name in ("bin", "lib", "lib64")}
        files = list_files()
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
        for name, path in sorted(files.items()):
            head, _, rest = name.partition("/")
            data = path.read_bytes()
            info = tarfile.TarInfo(f"{links.get(head, head)}/{rest}")
            info.size, info.mode = len(data), 0o755 if os.access(path, os.X_OK) else 0o644
            info.mtime = int(path.stat().st_mtime)  # byte code is held against it
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def write_image(path: Path) -> None:
    """An oci-archive with one layer."""
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layer = add(build_layer(), "layer.v1.tar")
    machine = {"os": "linux", "architecture": ARCHITECTURES.get(platform.machine(), platform.machine())}
    config = {
        **machine,
        "config": {"Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer],
    }
    described = {
        **add(json.dumps(manifest).encode(), "manifest.v1+json"),
        "platform": machine,
        "annotations": {"org.opencontainers.image.ref.name": "repotrial-example"},
    }
    members = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [described]}).encode(),
        **blobs,
    }
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def write_contract(directory: Path, image: Path) -> None:
    """The example with an image beside it; locks and certificates are of the other environment."""
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("contract.*.json"))
    shutil.copy(image, directory / "image.tar")
    contract = directory / "contract.toml"
    text, count = HOST_LINES.subn('image = "oci:image.tar"\n', contract.read_text(encoding="utf-8"))
    if count != 1:
        sys.exit("make_image.py: expected the lines of the host's tools in the example, found none")
    contract.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image", type=Path, help="the oci-archive to write")
    parser.add_argument("--contract", type=Path, help="where to put the example with this image")
    options = parser.parse_args()
    write_image(options.image)
    if options.contract is not None:
        write_contract(options.contract, options.image)


if __name__ == "__main__":
    main()
