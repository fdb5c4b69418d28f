"""The one HTTP allow-list, recorder and replayer: the network of contracts that declare one (P9)."""

from __future__ import annotations

from repotrial.run._gateway._proxy._addresses import (
    AddressCheck,
    RefusedAddressError,
    Resolver,
    SystemResolver,
    find_address_problem,
)
from repotrial.run._gateway._proxy._attempts import Attempt, AttemptSink, Verdict
from repotrial.run._gateway._proxy._authority import RunAuthority
from repotrial.run._gateway._proxy._build import build_network_proxy
from repotrial.run._gateway._proxy._fetch import Fetcher, LiveFetcher, RecordingFetcher, ReplayFetcher
from repotrial.run._gateway._proxy._hosts import AllowList, Authority, HostPatternError, parse_allow_list
from repotrial.run._gateway._proxy._proxy import AllowListProxy
from repotrial.run._gateway._proxy._tape import Tape, TapeWriter, load_tape
from repotrial.run._gateway._proxy._variables import build_proxy_variables

__all__ = [
    "AddressCheck",
    "AllowList",
    "AllowListProxy",
    "Attempt",
    "AttemptSink",
    "Authority",
    "Fetcher",
    "HostPatternError",
    "LiveFetcher",
    "RecordingFetcher",
    "RefusedAddressError",
    "ReplayFetcher",
    "Resolver",
    "RunAuthority",
    "SystemResolver",
    "Tape",
    "TapeWriter",
    "Verdict",
    "build_network_proxy",
    "build_proxy_variables",
    "find_address_problem",
    "load_tape",
    "parse_allow_list",
]
