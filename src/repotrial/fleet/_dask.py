"""Workers as tasks of a Dask cluster that the user names."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from repotrial import __version__
from repotrial.fleet._engine_order import (
    ENGINE_FILE,
    ENGINE_UNAVAILABLE,
    DaskSettings,
    EngineOrder,
    EngineStarted,
)

if TYPE_CHECKING:
    from distributed import Client

_PR_SET_PDEATHSIG: Final = 1


def start_dask(order: EngineOrder) -> EngineStarted:
    """Submit each worker as a task with a key that is always the same.

    A driver that is started again finds the tasks that are at work, instead of starting them twice; the
    scheduler keeps them when the driver is gone.

    Raises:
        ENGINE_FILE: no scheduler is named, or one that anyone on the network could use.
        ENGINE_UNAVAILABLE: the library is missing, the scheduler does not answer, or versions differ.
    """
    settings = order.settings.dask
    if settings is None:
        raise ENGINE_FILE.error("expected [dask] with a scheduler in the engine file, found none")
    verify_safe(settings)
    try:
        from distributed import Client, fire_and_forget
        from distributed.security import Security
    except ImportError as error:
        raise ENGINE_UNAVAILABLE.error(
            f"expected the library distributed, found: {error}", hint="pip install 'repotrial[dask]'"
        ) from error
    security = Security(
        tls_ca_file=settings.ca_file,
        tls_client_cert=settings.cert_file,
        tls_client_key=settings.key_file,
        require_encryption=settings.scheduler.startswith("tls://"),
    )
    try:
        client = Client(settings.scheduler, security=security, timeout=settings.timeout_seconds)
    except (OSError, ValueError, TimeoutError) as error:
        raise ENGINE_UNAVAILABLE.error(
            f"{settings.scheduler}: expected a scheduler, found: {error}"
        ) from error
    with client:
        _verify_versions(client, settings.scheduler)
        command = order.build_command(order.program, str(order.key_file.absolute()))
        keys = tuple(f"{order.name}-{number}" for number in range(order.settings.workers))
        for key in keys:
            fire_and_forget(client.submit(work_as_task, command, key=key, pure=False, retries=3))
    return EngineStarted(
        engine="dask", file=None, jobs=keys, next_step=f"repotrial fleet status {order.store}"
    )


def verify_safe(settings: DaskSettings) -> None:
    """Refuse a port that executes what anyone sends it.

    Raises:
        ENGINE_FILE: it is neither encrypted nor on this machine alone.
    """
    parts = urlsplit(settings.scheduler)
    if parts.scheme == "tls" and settings.ca_file and settings.cert_file and settings.key_file:
        return
    if parts.scheme == "tcp" and _is_loopback(parts.hostname or ""):
        return
    raise ENGINE_FILE.error(
        f"dask.scheduler: expected tls:// with ca_file, cert_file and key_file, or tcp:// on the loopback, "
        f"found {settings.scheduler!r}"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _verify_versions(client: Client, scheduler: str) -> None:
    """Tasks are pickled: the libraries must be the same, and so must this release."""
    try:
        client.get_versions(check=True)
        found = client.run(read_version)
    except Exception as error:
        raise ENGINE_UNAVAILABLE.error(
            f"{scheduler}: expected the same versions everywhere, found: {error}"
        ) from error
    others = {address: version for address, version in found.items() if version != __version__}
    if others:
        address, version = next(iter(others.items()))
        raise ENGINE_UNAVAILABLE.error(f"{address}: expected RepoTrial {__version__}, found {version}")


def read_version() -> str:
    """On a worker: the release there."""
    return __version__


def work_as_task(command: list[str]) -> int:
    """On a worker: one `fleet work`, which dies with the process that started it.

    Raises:
        RuntimeError: it failed, so that the scheduler tries another worker.
    """
    libc, parent = ctypes.CDLL(None), os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    ended = subprocess.run(command, preexec_fn=die_with_parent, check=False, stdin=subprocess.DEVNULL)
    if ended.returncode:
        raise RuntimeError(f"the worker ended with exit code {ended.returncode}")
    return 0
