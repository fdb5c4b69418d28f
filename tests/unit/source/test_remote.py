"""Fetching through a transport, from a git daemon on this machine."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from repotrial.contract import GitRepository
from repotrial.source import SourceOptions, materialize_snapshot, open_history, resolve_snapshot
from support.errors import raises_code
from support.repositories import RepositoryMaker, run_git


def can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def serve(root: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--export-all", f"--base-path={root}", "--listen=127.0.0.1"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(root)}
    daemon = subprocess.Popen(
        [*command, f"--port={port}", str(root)],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 20
        while not can_connect(port):
            assert daemon.poll() is None, "git daemon did not start"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait()


@pytest.fixture
def has_daemon() -> None:
    programs = Path(run_git(Path("/"), "--exec-path").decode().strip())
    if not (programs / "git-daemon").exists():
        pytest.skip("this git comes without git-daemon")


@pytest.mark.usefixtures("has_daemon")
def test_a_commit_is_fetched_with_its_submodules(tmp_path: Path) -> None:
    lib = RepositoryMaker(tmp_path / "srv/lib").commit({"lib.txt": "l\n"})
    app = RepositoryMaker(tmp_path / "srv/app")
    first = app.commit({"app.txt": "a\n"})
    app.add_submodule("lib", lib, url="../lib")
    second = app.commit_index()
    app.git("tag", "v1")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = SourceOptions(scratch=scratch, git_seconds=60)
    with serve(tmp_path / "srv") as url:
        repository = GitRepository(source=f"{url}/app", commit=second, protocols=("git",))
        snapshot = materialize_snapshot(repository, base=tmp_path, into=tmp_path / "out", options=options)
        assert (tmp_path / "out/lib/lib.txt").read_text() == "l\n"
        assert snapshot.file_count == 3

        with open_history(f"{url}/app", base=tmp_path, protocols=["git"], options=options) as history:
            assert history.resolve_commit("v1~1") == first
            assert history.resolve_commit("HEAD") == second
            assert history.read_commit(second).parents == (first,)
            assert b"lib" in history.build_patch(first, second)

        missing = msgspec.structs.replace(repository, commit="1" * 40)
        with raises_code("commit-not-found"):
            resolve_snapshot(missing, base=tmp_path, options=options)
        absent = msgspec.structs.replace(repository, source=f"{url}/absent")
        with raises_code("fetch-failed"):
            resolve_snapshot(absent, base=tmp_path, options=options)
        refused = msgspec.structs.replace(repository, protocols=("https",))
        with raises_code("protocol-refused"):
            resolve_snapshot(refused, base=tmp_path, options=options)
    assert list(scratch.iterdir()) == []


@pytest.mark.usefixtures("has_daemon")
def test_a_submodule_that_cannot_be_fetched_is_named(tmp_path: Path) -> None:
    app = RepositoryMaker(tmp_path / "srv/app")
    app.add_submodule("lib", "1" * 40, url="../absent")
    commit = app.commit_index()
    with serve(tmp_path / "srv") as url:
        repository = GitRepository(source=f"{url}/app", commit=commit, protocols=("git",))
        with raises_code("fetch-failed", match="submodule lib"):
            resolve_snapshot(repository, base=tmp_path)


@pytest.mark.usefixtures("has_daemon")
def test_a_submodule_needs_an_allowed_transport_of_its_own(tmp_path: Path) -> None:
    app = RepositoryMaker(tmp_path / "srv/app")
    app.add_submodule("lib", "1" * 40, url="https://example.invalid/lib")
    commit = app.commit_index()
    with serve(tmp_path / "srv") as url:
        repository = GitRepository(source=f"{url}/app", commit=commit, protocols=("git",))
        with raises_code("submodule-unresolved", match="https"):
            resolve_snapshot(repository, base=tmp_path)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


def test_a_server_that_knows_no_hashes_still_works(tmp_path: Path) -> None:
    """A directory behind a plain web server: no shallow fetch, no commit by its hash."""
    app = RepositoryMaker(tmp_path / "srv/app")
    first = app.commit({"app.txt": "a\n"})
    app.commit({"app.txt": "b\n"})
    app.git("update-server-info")
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "srv"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            source = f"http://127.0.0.1:{server.server_port}/app/.git"
            repository = GitRepository(source=source, commit=first, protocols=("http",))
            snapshot = resolve_snapshot(repository, base=tmp_path)
        finally:
            server.shutdown()
            thread.join()
    assert snapshot.total_bytes == 2
