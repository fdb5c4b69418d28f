"""The gateway: the agent's only way out, metered on the wire (P9, P14, P21, P22).

The HTTP library is loaded when something is served or asked, not with this package; `_proxy` loads it.
"""

from __future__ import annotations

from repotrial.run._gateway._errors import HostPatternError
from repotrial.run._gateway._loop import GatewayLoop, ServedRun, open_default_loop
from repotrial.run._gateway._model import (
    Dialect,
    Exchange,
    ExchangeEnd,
    Refusal,
    Supervisor,
    ToolCall,
    ToolResult,
    Upstream,
    WireAnswer,
    WireRequest,
)
from repotrial.run._gateway._recording import (
    Divergence,
    MatchMode,
    Recorder,
    RecordingUpstream,
    ReplayReport,
    load_recording,
)
from repotrial.run._gateway._script import ScriptUpstream, build_script_schema, load_script
from repotrial.run._gateway._upstreams import (
    FaultPlan,
    FaultUpstream,
    ProviderConfig,
    ProviderUpstream,
    StatusFault,
    load_provider,
)

__all__ = [
    "Dialect",
    "Divergence",
    "Exchange",
    "ExchangeEnd",
    "FaultPlan",
    "FaultUpstream",
    "GatewayLoop",
    "HostPatternError",
    "MatchMode",
    "ProviderConfig",
    "ProviderUpstream",
    "Recorder",
    "RecordingUpstream",
    "Refusal",
    "ReplayReport",
    "ScriptUpstream",
    "ServedRun",
    "StatusFault",
    "Supervisor",
    "ToolCall",
    "ToolResult",
    "Upstream",
    "WireAnswer",
    "WireRequest",
    "build_script_schema",
    "load_provider",
    "load_recording",
    "load_script",
    "open_default_loop",
]
