"""Mistakes that can be made before anything is served."""

from __future__ import annotations

from repotrial._core.errors import ContractError, ErrorCode

HOST_PATTERN = ErrorCode(
    "host-pattern",
    ContractError,
    "An entry of a network allow-list is no host name, or a wildcard that would allow too much.",
    hint="write example.org, example.org:8443 or *.example.org",
)
