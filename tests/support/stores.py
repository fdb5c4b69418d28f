"""Stores for tests: S3 by moto on the loopback, and a proxy before it that fails on demand."""

from __future__ import annotations

import http.client
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from moto.server import ThreadedMotoServer

KEY_ID = "AKIATESTSTOREKEY"
SECRET = "wJalr-store-secret-4f1c9d2e7b"


@contextmanager
def open_s3() -> Iterator[str]:
    """The address of an empty S3; its clock and conditions are moto's."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def build_variables(endpoint: str) -> dict[str, str]:
    """The environment with which a command reaches it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def make_bucket(endpoint: str) -> str:
    """A new bucket's address."""
    name = f"trial-{uuid.uuid4().hex[:12]}"
    status, _ = _send(endpoint, "PUT", f"/{name}", {}, b"")
    assert status == 200
    return f"s3://{name}/study"


def _send(
    endpoint: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, tuple[list[tuple[str, str]], bytes]]:
    host = endpoint.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, (answer.getheaders(), answer.read())
    finally:
        connection.close()


class Faults:
    """What the proxy does wrong at this moment."""

    def __init__(self) -> None:
        self.is_lying = False
        """Takes conditions off the requests, as some servers ignore them."""
        self.failures = 0
        """So many of the next requests are answered with 503."""
        self.delay_seconds = 0.0
        self.is_denying = False
        self.loses_answers = 0
        """So many of the next writes are carried out, and their answers lost."""
        self.requests = 0
        self.lock = threading.Lock()

    def take(self, name: str) -> bool:
        with self.lock:
            left: int = getattr(self, name)
            setattr(self, name, max(0, left - 1))
            return left > 0


_CONDITIONS = ("if-none-match", "if-match")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: ClassVar[Faults]
    target: ClassVar[str]

    def _forward(self) -> None:
        faults = self.faults
        faults.requests += 1
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if faults.delay_seconds:
            time.sleep(faults.delay_seconds)
        if faults.is_denying:
            self._answer(403, [], b"<Error><Code>InvalidAccessKeyId</Code></Error>")
            return
        if faults.take("failures"):
            self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return
        headers = {
            name: value
            for name, value in self.headers.items()
            if not (faults.is_lying and name.lower() in _CONDITIONS)
        }
        status, (found, data) = _send(self.target, self.command, self.path, headers, body)
        if self.command == "PUT" and faults.take("loses_answers"):
            self._answer(503, [], b"")
            return
        self._answer(status, found, data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward  # noqa: N815 - the library's names

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        is_head = self.command == "HEAD"
        kept = [
            (name, value)
            for name, value in headers
            if name.lower() not in ("transfer-encoding", "connection", "date", "server")
            and (is_head or name.lower() != "content-length")
        ]
        for name, value in kept:
            self.send_header(name, value)
        if not is_head:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def open_faulty(target: str) -> Iterator[tuple[str, Faults]]:
    """A server before a store, and what it is to do wrong."""
    faults = Faults()
    handler = type("Handler", (_Handler,), {"faults": faults, "target": target})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
