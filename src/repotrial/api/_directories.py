"""Directories that a user names: there, or a message that says what is."""

from __future__ import annotations

import stat
from pathlib import Path

from repotrial._core.errors import UsageError
from repotrial.trace import RunPaths

__all__ = [
    "ContractDirectoryMissingError",
    "RunDirectoryMissingError",
    "build_run_paths",
    "verify_contract_directory",
]


class ContractDirectoryMissingError(UsageError):
    """The path does not name a directory, so there is no contract to look at."""

    code = "contract-directory-missing"
    default_hint = "name the directory that holds contract.toml; `repotrial contract new` makes one"


class RunDirectoryMissingError(UsageError):
    """The path does not name a directory, so there is no run to look at."""

    code = "run-directory-missing"
    default_hint = "name the directory that holds trace.jsonl and manifest.json"


def build_run_paths(directory: Path) -> RunPaths:
    obstacle = _find_obstacle(directory)
    if obstacle:
        raise RunDirectoryMissingError(f"{directory}: expected a run directory, found {obstacle}")
    return RunPaths(directory)


def verify_contract_directory(directory: Path) -> None:
    obstacle = _find_obstacle(directory)
    if obstacle:
        raise ContractDirectoryMissingError(f"{directory}: expected a contract directory, found {obstacle}")


def _find_obstacle(directory: Path) -> str:
    """What keeps `directory` from being looked into, in words; empty if nothing does."""
    try:
        is_directory = stat.S_ISDIR(directory.stat().st_mode)
    except FileNotFoundError:
        return "nothing there"
    except (OSError, ValueError) as error:
        return f"that it cannot be reached ({getattr(error, 'strerror', None) or error})"
    return "" if is_directory else "something that is not a directory"
