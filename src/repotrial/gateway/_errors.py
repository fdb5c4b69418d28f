"""Mistakes that can be made before anything is served."""

from __future__ import annotations

from repotrial._core.errors import ContractError


class HostPatternError(ContractError):
    """An entry of a network allow-list is no host name, or a wildcard that would allow too much."""

    code = "host-pattern"
    default_hint = "write example.org, example.org:8443 or *.example.org"
