"""Whoever answers in the end: a provider, a recording, either with faults on purpose."""

from __future__ import annotations

from repotrial.run._gateway._upstreams._fault import (
    CutFault,
    Fault,
    FaultPlan,
    FaultUpstream,
    MalformedFault,
    SlowFault,
    StatusFault,
)
from repotrial.run._gateway._upstreams._provider import (
    KeyPlace,
    ProviderConfig,
    ProviderUnusableError,
    ProviderUpstream,
)
from repotrial.run._gateway._upstreams._provider_file import ProviderInvalidError, load_provider

__all__ = [
    "CutFault",
    "Fault",
    "FaultPlan",
    "FaultUpstream",
    "KeyPlace",
    "MalformedFault",
    "ProviderConfig",
    "ProviderInvalidError",
    "ProviderUnusableError",
    "ProviderUpstream",
    "SlowFault",
    "StatusFault",
    "load_provider",
]
