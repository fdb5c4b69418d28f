"""The only way out of a sandbox: model wire formats, proxy, scripts, recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.gateway._control import ask_control
    from repotrial.gateway._loop import GatewayLoop
    from repotrial.gateway._model import ExchangeEnd, Upstream
    from repotrial.gateway._provider import ProviderConfig, ProviderUpstream, load_provider
    from repotrial.gateway._provider_watch import ProviderWatch
    from repotrial.gateway._proxy._attempts import NetworkAttempt
    from repotrial.gateway._proxy._authority import RunAuthority
    from repotrial.gateway._proxy._build import build_network_proxy
    from repotrial.gateway._proxy._hosts import AddressCheck, Resolver
    from repotrial.gateway._recording._recorder import Recorder
    from repotrial.gateway._recording._replay import RecordingUpstream
    from repotrial.gateway._script._script import build_script_schema
    from repotrial.gateway._script._upstream import load_script

else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AddressCheck",
    "ExchangeEnd",
    "GatewayLoop",
    "NetworkAttempt",
    "ProviderConfig",
    "ProviderUpstream",
    "ProviderWatch",
    "Recorder",
    "RecordingUpstream",
    "Resolver",
    "RunAuthority",
    "Upstream",
    "ask_control",
    "build_network_proxy",
    "build_script_schema",
    "load_provider",
    "load_script",
]
