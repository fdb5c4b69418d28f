"""From what a contract declares to a proxy that keeps to it."""

from __future__ import annotations

from pathlib import Path

from repotrial.contract import AllowListNetwork, ReplayNetwork
from repotrial.gateway._proxy._attempts import AttemptSink
from repotrial.gateway._proxy._authority import RunAuthority
from repotrial.gateway._proxy._fetch import Fetcher, LiveFetcher, RecordingFetcher, ReplayFetcher
from repotrial.gateway._proxy._hosts import AddressCheck, Resolver, find_address_problem, parse_allow_list
from repotrial.gateway._proxy._proxy import AllowListProxy
from repotrial.gateway._proxy._tape import TapeWriter, load_tape


def build_network_proxy(
    network: AllowListNetwork | ReplayNetwork,
    *,
    sink: AttemptSink,
    authority: RunAuthority | None = None,
    tape: Path | None = None,
    record_to: Path | None = None,
    resolver: Resolver | None = None,
    check: AddressCheck | None = None,
) -> AllowListProxy:
    """The network of one phase.

    Args:
        network: As declared.
        sink: Told about every attempt.
        authority: Of this run. Without one, TLS passes unread, and can be neither recorded nor replayed.
        tape: A directory with recorded answers. Where there is one, nothing outside is reached.
        record_to: A directory in which answers are recorded.
        resolver: Turns names into addresses, where it is not the host's own way.
        check: Which addresses may be reached; None: only those of the public internet.

    Raises:
        HOST_PATTERN: an entry of the list is no host.
        RECORDING_UNREADABLE: a tape is needed, and there is none.
    """
    check = check or find_address_problem
    allowed = parse_allow_list(network.hosts) if isinstance(network, AllowListNetwork) else None
    fetcher: Fetcher
    if tape is not None or isinstance(network, ReplayNetwork):
        fetcher = ReplayFetcher(load_tape(tape or Path(network.recording or "")))
    else:
        fetcher = LiveFetcher(resolver=resolver, check=check)
        if record_to is not None:
            fetcher = RecordingFetcher(fetcher, TapeWriter(record_to))
    return AllowListProxy(
        allowed, fetcher=fetcher, sink=sink, authority=authority, resolver=resolver, check=check
    )
