"""The proxy as the network of one Setup: the one that serves agents, its authority made anew (P9, C12)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from repotrial.environment import SETUP_NETWORK, StepNetwork
from repotrial.gateway import GatewayLoop
from repotrial.workspace import SetupAttempt

if TYPE_CHECKING:
    from repotrial.gateway import AddressCheck, NetworkAttempt, Resolver, RunAuthority


class ProxiedNetwork:
    """Serves the steps of one Setup.

    Args:
        loop: Where the proxy runs.
        resolver: Turns names into addresses; null: as the host does it.
        check: Which addresses may be reached; null: only those of the public internet.
    """

    def __init__(self, loop: GatewayLoop, *, resolver: Resolver | None, check: AddressCheck | None) -> None:
        self._loop = loop
        self._resolver = resolver
        self._check = check

    @property
    def certificate(self) -> bytes:
        """What programs inside have to trust (PEM)."""
        return self._authority.certificate_pem

    def build_variables(self, port: int, certificate: str) -> dict[str, str]:
        """What programs have to be told."""
        return self._authority.build_variables(port, certificate=certificate)

    @contextmanager
    def serve(
        self, listener: socket.socket, network: StepNetwork, sink: Callable[[SetupAttempt], None]
    ) -> Iterator[None]:
        """Answer on a listener inside until the block ends; it is closed with it.

        Raises:
            HOST_PATTERN: an entry of the allow-list is no host.
            RECORDING_UNREADABLE: recorded answers are needed, and there are none.
            SETUP_NETWORK: something that was tried could not be put on record.
        """
        from repotrial.gateway import build_network_proxy

        with listener:
            proxy = build_network_proxy(
                network.policy,
                sink=lambda attempt: sink(_convert(attempt)),
                authority=self._authority,
                tape=network.tape,
                record_to=network.record_to,
                resolver=self._resolver,
                check=self._check,
            )
            with self._loop.attach(listener, proxy):
                yield
        if proxy.problems:
            raise SETUP_NETWORK.error(
                f"expected every attempt to use the network on record, found: {'; '.join(proxy.problems)}",
                hint="check the disk's space, and start again: nothing of this Setup was kept",
            )

    @cached_property
    def _authority(self) -> RunAuthority:
        from repotrial.gateway import RunAuthority

        return RunAuthority()


def _convert(attempt: NetworkAttempt) -> SetupAttempt:
    return msgspec.convert(attempt, SetupAttempt, from_attributes=True)
