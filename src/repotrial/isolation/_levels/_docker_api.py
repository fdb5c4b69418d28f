"""A small client of the Docker API over a Unix socket: what containers here need of it, and no more.

Docker and podman answer it alike. Paths carry no version: every engine then speaks its newest.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import urllib.parse
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from repotrial._core.errors import ErrorCode, MachineError

Answer = TypeVar("Answer")

_TIMEOUT_SECONDS: Final = 120.0
_REASON_BYTES: Final = 1 << 16


CONTAINER_ENGINE = ErrorCode(
    "container-engine",
    MachineError,
    "The container engine cannot be reached, or refused a request.",
    hint="Check that the engine runs and that you may use its socket; `repotrial doctor` tries it.",
)


class _Component(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    name: str = ""


class _EngineVersion(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Who answers."""

    version: str = ""
    components: list[_Component] = []

    @property
    def is_podman(self) -> bool:
        return any("podman" in component.name.lower() for component in self.components)


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What the engine says that it can do."""

    cgroup_version: str = ""
    memory_limit: bool = False
    pids_limit: bool = False
    security_options: list[str] | None = None

    @property
    def is_rootless(self) -> bool:
        return any("rootless" in option for option in self.security_options or [])


class _Identified(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str


class _State(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    running: bool
    oom_killed: bool = msgspec.field(name="OOMKilled", default=False)
    pid: int = 0


class _HostConfig(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    privileged: bool
    network_mode: str
    readonly_rootfs: bool
    cap_add: list[str] | None = None


class _ContainerState(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """How a container is, and what the engine made of the request."""

    id: str
    state: _State
    host_config: _HostConfig


class _ContainerRow(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """One container in a list."""

    id: str
    labels: dict[str, str] | None = None


class ExecState(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """How a program inside is; its exit code comes from the engine, which is its parent."""

    running: bool
    exit_code: int | None = None


class _RootFs(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    layers: list[str] = []


class _ImageState(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """An image that the engine has."""

    id: str
    root_fs: _RootFs = msgspec.field(name="RootFS")


class _CpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    total_usage: int = 0


class _CpuStats(msgspec.Struct, frozen=True, kw_only=True):
    cpu_usage: _CpuUsage = _CpuUsage()


class _Stats(msgspec.Struct, frozen=True, kw_only=True):
    cpu_stats: _CpuStats = _CpuStats()


class EngineClient:
    """Asks one engine; each request has a connection of its own, so threads can share it.

    Args:
        path: The engine's socket.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load_version(self) -> _EngineVersion:
        return self._ask("GET", "/version", _EngineVersion)

    def load_info(self) -> EngineInfo:
        return self._ask("GET", "/info", EngineInfo)

    def find_image(self, name: str) -> _ImageState | None:
        try:
            return self._ask("GET", f"/images/{urllib.parse.quote(name)}/json", _ImageState)
        except MachineError as error:
            if HTTPStatus.NOT_FOUND in error.details:
                return None
            raise

    def load_image(self, archive: IO[bytes]) -> None:
        """Give the engine an image; the file is read from where it stands."""
        size = os.fstat(archive.fileno()).st_size - archive.tell()
        headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
        with self._request("POST", "/images/load?quiet=1", archive, headers) as response:
            response.read()

    def create_container(self, name: str, body: Mapping[str, Any]) -> str:
        path = f"/containers/create?name={urllib.parse.quote(name)}"
        return self._ask("POST", path, _Identified, body).id

    def start_container(self, container: str) -> None:
        self._tell("POST", f"/containers/{container}/start")

    def pause_container(self, container: str) -> None:
        self._tell("POST", f"/containers/{container}/pause")

    def unpause_container(self, container: str) -> None:
        self._tell("POST", f"/containers/{container}/unpause")

    def remove_container(self, container: str) -> None:
        """Kill everything in it and remove it; one that is not there is not missed."""
        try:
            self._tell("DELETE", f"/containers/{container}?force=true&v=true")
        except MachineError as error:
            if HTTPStatus.NOT_FOUND not in error.details:
                raise

    def load_container(self, container: str) -> _ContainerState:
        return self._ask("GET", f"/containers/{container}/json", _ContainerState)

    def list_containers(self, label: str) -> list[_ContainerRow]:
        """Those with a label, whether they run or not."""
        filters = urllib.parse.quote(json.dumps({"label": [label]}))
        return self._ask("GET", f"/containers/json?all=true&filters={filters}", list[_ContainerRow])

    def load_cpu_us(self, container: str) -> int:
        """Processor time of everything in a container since it was started."""
        stats = self._ask("GET", f"/containers/{container}/stats?stream=false&one-shot=true", _Stats)
        return stats.cpu_stats.cpu_usage.total_usage // 1000

    def create_exec(self, container: str, body: Mapping[str, Any]) -> str:
        return self._ask("POST", f"/containers/{container}/exec", _Identified, body).id

    def start_exec(self, program: str) -> socket.socket:
        """Start a program that was created; what it prints comes in frames, without end marks."""
        connection = _UnixConnection(self.path)
        connection.response_class = _BareResponse
        try:
            content = json.dumps({"Detach": False, "Tty": False})
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/exec/{program}/start", content, headers)
            stream = socket.socket(fileno=os.dup(connection.sock.fileno()))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise CONTAINER_ENGINE.error(f"{self.path}: {error}") from error
        finally:
            connection.close()
        if response.status >= HTTPStatus.BAD_REQUEST:
            with stream:
                raise CONTAINER_ENGINE.error(_explain(response), details=(response.status,))
        return stream

    def load_exec(self, program: str) -> ExecState:
        return self._ask("GET", f"/exec/{program}/json", ExecState)

    def _ask(
        self, method: str, path: str, answer: type[Answer], body: Mapping[str, Any] | None = None
    ) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        with self._request(method, path, content, headers) as response:
            data = response.read()
        try:
            return msgspec.json.decode(data, type=answer)
        except msgspec.MsgspecError as error:
            raise CONTAINER_ENGINE.error(
                f"{path}: expected an answer of the Docker API, found: {error}"
            ) from error

    def _tell(self, method: str, path: str) -> None:
        with self._request(method, path, None, {}) as response:
            response.read()

    @contextlib.contextmanager
    def _request(
        self, method: str, path: str, body: bytes | IO[bytes] | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        with contextlib.closing(_UnixConnection(self.path)) as connection:
            try:
                connection.request(method, path, body, dict(headers))
                response = connection.getresponse()
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise CONTAINER_ENGINE.error(_explain(response), details=(response.status,))
                yield response
            except (OSError, http.client.HTTPException) as error:
                raise CONTAINER_ENGINE.error(
                    f"{self.path}: {method} {path.partition('?')[0]}: {error}"
                ) from error


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _BareResponse(http.client.HTTPResponse):
    """Reads no further than the end of the head: what follows is read from the socket itself."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = sock.makefile("rb", 0)  # type: ignore[assignment]  # unbuffered, which the stubs do not know


def _explain(response: http.client.HTTPResponse) -> str:
    """What the engine says, in its own words."""
    text = response.read(_REASON_BYTES).decode(errors="replace").strip()
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    return f"the container engine refused ({response.status}): {message}"
