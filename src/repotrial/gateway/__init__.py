"""The only way out of a sandbox: model wire formats, proxy, scripts, recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.gateway._loop import GatewayLoop, open_default_loop
    from repotrial.gateway._model import (
        Dialect,
        ExchangeEnd,
        Refusal,
        ToolCall,
        ToolResult,
        Upstream,
        WireAnswer,
        WireRequest,
    )
    from repotrial.gateway._provider import ProviderConfig, ProviderUpstream, load_provider
    from repotrial.gateway._proxy._attempts import Attempt
    from repotrial.gateway._proxy._authority import RunAuthority
    from repotrial.gateway._proxy._build import build_network_proxy, build_proxy_variables
    from repotrial.gateway._proxy._hosts import AddressCheck, Resolver, find_address_problem
    from repotrial.gateway._recording._files import load_recording
    from repotrial.gateway._recording._recorder import Recorder
    from repotrial.gateway._recording._replay import RecordingUpstream
    from repotrial.gateway._script._plan import ScriptUpstream
    from repotrial.gateway._script._script import build_script_schema, load_script
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AddressCheck",
    "Attempt",
    "Dialect",
    "ExchangeEnd",
    "GatewayLoop",
    "ProviderConfig",
    "ProviderUpstream",
    "Recorder",
    "RecordingUpstream",
    "Refusal",
    "Resolver",
    "RunAuthority",
    "ScriptUpstream",
    "ToolCall",
    "ToolResult",
    "Upstream",
    "WireAnswer",
    "WireRequest",
    "build_network_proxy",
    "build_proxy_variables",
    "build_script_schema",
    "find_address_problem",
    "load_provider",
    "load_recording",
    "load_script",
    "open_default_loop",
]
