"""Requirements files of contracts, read before a run has to: without hashes, every run would be invalid."""

from __future__ import annotations

import re

from repotrial._core.errors import ContractError
from repotrial.contract import LoadedContract, Problem

LOCK_HINT = "make a requirements file with hashes, as `pip-compile --generate-hashes` and uv do"
_LINE = re.compile(r"\bline ([0-9]{1,9}): ")


def check_python_lock(loaded: LoadedContract) -> list[Problem]:
    """What keeps the contract's requirements file from being installed."""
    python = loaded.contract.environment.python
    if python is None:
        return []
    # Contracts without one are checked without it.
    from repotrial.environment import parse_requirements

    try:
        parse_requirements((loaded.directory / python.lock).read_bytes(), python.lock)
    except ContractError as error:  # `package-lock-invalid`, `package-hash-missing`
        line = _LINE.search(error.message)
        return [
            Problem(
                code="draft-python-lock",
                severity="error",
                file=python.lock,
                line=None if line is None else int(line[1]),
                field="environment.python.lock",
                message=error.message.removeprefix(f"{python.lock}: "),
                hint=LOCK_HINT,
            )
        ]
    except OSError:
        return []  # loading says so
    return []
