"""The network of Setup: opened while a contract is prepared, recorded in every run that uses it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from repotrial.environment import SETUP_NETWORK, StepNetwork
from repotrial.gateway import GatewayLoop
from repotrial.run._request import NetworkAccess
from repotrial.workspace import SetupAttempt

if TYPE_CHECKING:
    from repotrial.gateway import NetworkAttempt, RunAuthority


class ProxiedNetwork:
    """Serves the steps of one Setup.

    Args:
        access: How names become addresses, and which of those may be reached.
    """

    def __init__(self, access: NetworkAccess) -> None:
        self._access = access

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
                resolver=self._access.resolver,
                check=self._access.check,
            )
            with GatewayLoop.shared().attach(listener, proxy):
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


class ProxiedSetup:
    """Opens the network of contracts' Setups.

    Args:
        access: How names become addresses, and which of those may be reached.
    """

    def __init__(self, access: NetworkAccess | None = None) -> None:
        self._access = access or NetworkAccess()

    def open(self) -> ProxiedNetwork:
        """For one Setup."""
        return ProxiedNetwork(self._access)
