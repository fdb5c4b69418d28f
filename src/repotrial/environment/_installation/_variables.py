"""The variables that programs see: the contract's, a few defaults, and nothing of the machine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import SandboxPhase
from repotrial.contract import Environment

CONTROLLED_VARIABLES: Final = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}
"""Set unless the contract sets them (P8, P10): locale, time zone and the order of hashes."""

_DEFAULTS: Final = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    **CONTROLLED_VARIABLES,
}
"""The same on every machine, unless the contract says otherwise."""


SECRET_MISSING = ErrorCode(
    "secret-missing",
    UsageError,
    "The contract needs a secret, and the operator gave none of that name.",
    hint="give the secret by its name; the contract says what it is for",
)


def verify_secrets(environment: Environment, given: Mapping[str, str]) -> None:
    """See that every required secret is there, before anything runs.

    Raises:
        SECRET_MISSING: one is not.
    """
    missing = [item for item in environment.secrets if item.is_required and item.name not in given]
    if missing:
        named = "; ".join(f"{item.name} ({item.reason})" for item in missing)
        raise SECRET_MISSING.error(f"environment.secrets: expected a value for each, found none for {named}")


def build_variables(
    environment: Environment,
    *,
    phase: SandboxPhase,
    found: Mapping[str, str],
    secrets: Mapping[str, str],
    added: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of programs in one phase.

    Args:
        environment: As the contract declares it.
        phase: Decides which secrets are seen.
        found: What the place itself needs: the search path, and what an image says.
        secrets: All values that the operator gave, by name.
        added: What this one sandbox needs on top.
    """
    shown = {
        item.name: secrets[item.name]
        for item in environment.secrets
        if phase in item.phases and item.name in secrets
    }
    every = {**_DEFAULTS, **found, **environment.variables, **shown, **added}
    return {name: value for name, value in every.items() if name not in environment.absent}
