"""A provider's description as a file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.gateway._upstreams._provider import ProviderConfig

PROVIDER_INVALID = ErrorCode(
    "provider-invalid",
    UsageError,
    "A provider's description cannot be read, or is not one.",
    hint="write base_url, key_variable and key_place, as docs/how-to/run-a-real-agent.md shows",
)


def load_provider(path: Path) -> ProviderConfig:
    """Read a provider's description (TOML).

    Raises:
        PROVIDER_INVALID: it is not one; the message names the file and the field.
    """
    try:
        value = tomllib.loads(path.read_text())
        return msgspec.convert(value, ProviderConfig)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise PROVIDER_INVALID.error(f"{path}: expected a provider's description, found: {error}") from error
