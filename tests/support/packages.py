"""Packages made by the tests themselves: wheels in a directory, Node.js packages on a loopback server."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def write_wheel(
    directory: Path,
    name: str,
    *,
    version: str = "1.0",
    tag: str = "py3-none-any",
    requires: tuple[str, ...] = (),
    files: dict[str, str] | None = None,
) -> str:
    """A wheel with a module and a command of its own name; returns its line for a lock."""
    info = f"{name}-{version}.dist-info"
    requirements = "".join(f"Requires-Dist: {item}\n" for item in requires)
    members = {
        f"{name}.py": f"NAMES = {{'b', 'a', 'c'}}\ndef main():\n    print('{name} {version} runs')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirements}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
        **(files or {}),
    }
    record = "".join(f"{path},,\n" for path in members) + f"{info}/RECORD,,\n"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**members, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def build_node_package(name: str, version: str, files: dict[str, str]) -> tuple[bytes, str]:
    """The tarball of a package and its integrity hash."""
    buffer = io.BytesIO()
    manifest = json.dumps(
        {"name": name, "version": version, "scripts": {"install": "touch /install-script-ran"}}
    )
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {"package.json": manifest, **files}.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    data = buffer.getvalue()
    return data, "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[str]:
    """A web server on loopback; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
