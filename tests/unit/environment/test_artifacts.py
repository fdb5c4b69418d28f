"""Artifacts by address: downloaded once, over TLS, believed by digest; from a server of the test's own."""

from __future__ import annotations

import io
import ssl
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial.contract import Artifact
from repotrial.environment import HostExecution, Store, telling
from repotrial.environment._installation._artifacts import download, open_artifact
from repotrial.gateway import RunAuthority
from repotrial.trace import NotStarted
from support.errors import raises_code

LOOPBACK = "127.0.0.1"
DATA = b"#!/bin/sh\necho tool\n"


class Origin:
    """A server with TLS on loopback, and an authority that vouches for it."""

    def __init__(self, server: ThreadingHTTPServer, authority: Path) -> None:
        self.address = f"https://{LOOPBACK}:{server.server_port}"
        self.variables = {"SSL_CERT_FILE": str(authority), "NO_PROXY": LOOPBACK}
        self.asked: list[str] = []


def _build_archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo("tools-1.0/tool.sh")
        info.size, info.mode = len(DATA), 0o755
        archive.addfile(info, io.BytesIO(DATA))
    return packed.getvalue()


@contextmanager
def _serve(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer((LOOPBACK, 0), handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def archive() -> bytes:
    return _build_archive()


@pytest.fixture
def origin(tmp_path: Path, archive: bytes) -> Iterator[Origin]:
    files = {"/tool": DATA, "/tools.tar.gz": archive}
    places = {"/elsewhere": "/tool", "/plain": f"http://{LOOPBACK}/tool", "/file": "file:///etc/passwd"}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            asked.append(self.path)
            if path in places:
                self.send_response(302)
                self.send_header("Location", places[path])
            else:
                self.send_response(200 if path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(path, b""))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    authority = RunAuthority()
    (tmp_path / "authority.pem").write_bytes(authority.certificate_pem)
    tls = authority.find_context(LOOPBACK)
    assert tls is not None
    with _serve(Handler, tls) as server:
        found = Origin(server, tmp_path / "authority.pem")
        found.asked = asked
        yield found


def _build(source: str, data: bytes, **more: object) -> Artifact:
    fields = {"id": "tool", "source": source, "digest": digest_bytes(data), "target": "/opt/tool", **more}
    return Artifact(**fields)  # type: ignore[arg-type]  # of many kinds


def _list_downloads(path: Path) -> list[Path]:
    return [*path.parent.glob("download*")]


def test_an_artifact_is_downloaded_once_and_needs_no_network_ever_after(
    tmp_path: Path, origin: Origin
) -> None:
    store = Store(tmp_path / "store")
    artifact = _build(f"{origin.address}/elsewhere", DATA)
    told: list[HostExecution] = []
    with telling(told.append):
        first = open_artifact(artifact, directory=tmp_path, store=store, variables=origin.variables)
    assert (first.path / "content").read_bytes() == DATA
    (fetched,) = told
    assert (fetched.purpose, fetched.argv) == ("obtain", ("GET", f"https://{LOOPBACK}/elsewhere"))
    assert (fetched.stdout.digest, fetched.stdout.length_bytes) == (digest_bytes(DATA), len(DATA))
    assert _list_downloads(first.path) == []
    assert origin.asked == ["/elsewhere", "/tool"]
    with telling(told.append):
        again = open_artifact(artifact, directory=tmp_path, store=store, variables={})
    assert told == [fetched, fetched], "what is found is told with the record of how it came"
    assert (again.path, again.is_new) == (first.path, False)
    assert len(origin.asked) == 2


def test_an_archive_is_unpacked_and_not_kept(tmp_path: Path, origin: Origin, archive: bytes) -> None:
    artifact = _build(f"{origin.address}/tools.tar.gz", archive, unpack="tar", strip_components=1)
    entry = open_artifact(
        artifact, directory=tmp_path, store=Store(tmp_path / "store"), variables=origin.variables
    )
    assert [path.name for path in entry.path.iterdir()] == ["tool.sh"]
    assert _list_downloads(entry.path) == []


def test_another_file_than_the_pinned_one_is_refused_and_leaves_nothing(
    tmp_path: Path, origin: Origin
) -> None:
    artifact = _build(f"{origin.address}/tool", b"what was promised")
    with raises_code("artifact-mismatch"):
        open_artifact(
            artifact, directory=tmp_path, store=Store(tmp_path / "store"), variables=origin.variables
        )
    assert not [path for path in (tmp_path / "store" / "artifacts").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "source", ["http://127.0.0.1/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://u:p@127.0.0.1/x"]
)
def test_only_https_without_a_user_is_asked(tmp_path: Path, source: str) -> None:
    with raises_code("artifact-address") as raised:
        download(source, tmp_path / "x", variables={})
    assert "p@" not in str(raised.value)


@pytest.mark.parametrize("path", ["/plain", "/file"])
def test_a_redirect_does_not_leave_https(tmp_path: Path, origin: Origin, path: str) -> None:
    with raises_code("artifact-address", "artifact-unreachable"):
        download(origin.address + path, tmp_path / "x", variables=origin.variables)
    assert origin.asked == [path]


def test_a_server_that_nobody_vouches_for_is_not_believed(tmp_path: Path, origin: Origin) -> None:
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(RunAuthority().certificate_pem)
    with raises_code("artifact-unreachable", match="CERTIFICATE"):
        download(
            f"{origin.address}/tool",
            tmp_path / "x",
            variables={**origin.variables, "SSL_CERT_FILE": str(stranger)},
        )
    assert origin.asked == []


def test_a_download_that_failed_is_on_record(tmp_path: Path, origin: Origin) -> None:
    told: list[HostExecution] = []
    artifact = _build(f"{origin.address}/gone", DATA)
    with telling(told.append), raises_code("artifact-unreachable"):
        open_artifact(artifact, directory=tmp_path, store=Store(tmp_path / "s"), variables=origin.variables)
    (tried,) = told
    assert isinstance(tried.exit, NotStarted)
    assert "status 404" in tried.exit.reason


def test_what_cannot_be_had_is_refused_without_telling_the_query(tmp_path: Path, origin: Origin) -> None:
    with raises_code("artifact-unreachable", match="status 404") as raised:
        download(f"{origin.address}/gone?token=abc", tmp_path / "x", variables=origin.variables)
    assert "abc" not in str(raised.value)
    with raises_code("artifact-unreachable", match="at most 4 bytes"):
        download(f"{origin.address}/tool", tmp_path / "y", variables=origin.variables, max_bytes=4)
    with raises_code("artifact-unreachable"):  # a proxy is asked where there is one
        download(
            f"{origin.address}/tool",
            tmp_path / "z",
            variables={
                "SSL_CERT_FILE": origin.variables["SSL_CERT_FILE"],
                "HTTPS_PROXY": "http://127.0.0.1:1",
            },
        )
