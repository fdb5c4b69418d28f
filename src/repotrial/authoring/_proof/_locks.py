"""The lock of that time: packages as an index had them when a change was made."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.display import neutralize
from repotrial._core.errors import ContractError, MachineError
from repotrial._core.files import write_atomic
from repotrial.environment import SYSTEM_PATH, execute_program, parse_requirements

_SECONDS: Final = 180
_SHOWN: Final = 300
_PASSED_ON: Final = re.compile(r"UV_\w+|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_(?:FILE|DIR)|NETRC")
_INTERPRETERS: Final = {
    (3, 11): dt.date(2022, 10, 24),
    (3, 12): dt.date(2023, 10, 2),
    (3, 13): dt.date(2024, 10, 7),
    (3, 14): dt.date(2025, 10, 7),
}
"""When each interpreter came out: packages that are older were never tried with it."""
_SETTLED: Final = dt.timedelta(days=120)
"""How long it takes until most packages have a release for a new interpreter."""


class LockedPackages(msgspec.Struct, frozen=True, kw_only=True):
    """A requirements file with hashes, and how it came about."""

    data: bytes
    names: tuple[str, ...]
    command: str
    """What to run to make it again."""


class PackageLocker(Protocol):
    """Resolves requirements as of a day."""

    def lock(self, requirements: Sequence[str], *, cutoff: dt.date) -> LockedPackages | NotComputable:
        """Every package with its hashes; why not, where they cannot be had."""
        ...


def choose_cutoff(
    committed_at: dt.datetime, *, is_exact: bool = False, is_for_python: bool = True
) -> tuple[dt.date, str]:
    """The day as of which packages are taken for a change, and the reason.

    The month's end, so that changes of one month share an environment. Not before this machine's interpreter
    had packages that were made for it.

    Args:
        committed_at: When the change was made.
        is_exact: Take the day itself: for a project that is among its own tests' packages.
        is_for_python: Whether packages must know this machine's Python.
    """
    day = committed_at.astimezone(dt.UTC).date()
    month = day if is_exact else (day.replace(day=1) + dt.timedelta(days=32)).replace(day=1)
    released = _INTERPRETERS.get(sys.version_info[:2]) if is_for_python else None
    if released is not None and month < released + _SETTLED:
        shown = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return released + _SETTLED, f"the change is of {day}; older packages do not know Python {shown}"
    return month, f"packages as the index had them then: the change is of {day}"


class UvLocker:
    """`uv pip compile`. No package is built and no code of one runs: wheels only."""

    def __init__(self, variables: Mapping[str, str], *, home: Path, kept: Path | None = None) -> None:
        """Say what uv may know.

        Args:
            variables: The operator's environment: `UV_*` settings, proxies and certificates are passed on.
            home: Where uv keeps its cache.
            kept: Where locks are kept, so that the same question needs no network again.
        """
        self._variables = variables
        self._home = home
        self._kept = kept

    def lock(self, requirements: Sequence[str], *, cutoff: dt.date) -> LockedPackages | NotComputable:
        """Every package with its hashes; why not, where they cannot be had."""
        program = self._find_program()
        if program is None:
            return NotComputable(reason="uv is not installed (`pip install uv`), or give --python-lock FILE")
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        options = [
            *("pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--only-binary", ":all:"),
            *("--python-version", version, "--exclude-newer", cutoff.isoformat()),
        ]
        command = f"uv {' '.join(options)} requirements.in  # {', '.join(requirements)}"
        key = canonical_digest(
            {"options": list[JsonValue](options), "requirements": list[JsonValue](sorted(requirements))}
        )
        place = None if self._kept is None else self._kept / f"{key.removeprefix('sha256:')}.lock"
        data = None if place is None or not place.is_file() else place.read_bytes()
        if data is None:
            said = self._compile([program, *options, "requirements.in"], requirements)
            if isinstance(said, NotComputable):
                return said
            data = said
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(place, data)
        names = tuple(item.name for item in parse_requirements(data, "uv's answer"))
        return LockedPackages(data=data, names=names, command=command)

    def _compile(self, argv: list[str], requirements: Sequence[str]) -> bytes | NotComputable:
        passed = {name: value for name, value in self._variables.items() if _PASSED_ON.fullmatch(name)}
        variables = {"PATH": SYSTEM_PATH, "HOME": str(self._home), **passed}
        with tempfile.TemporaryDirectory(prefix="repotrial-lock-") as place:
            Path(place, "requirements.in").write_text("\n".join(requirements) + "\n", encoding="utf-8")
            try:
                done = execute_program(argv, variables=variables, seconds=_SECONDS, cwd=Path(place))
                if done.status == 0:
                    parse_requirements(done.stdout, "uv's answer")
            except (MachineError, ContractError) as error:  # `program-timeout`, `package-lock-invalid` …
                return NotComputable(reason=f"uv could not lock the packages: {error.message}")
        if done.status != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())
            return NotComputable(
                reason=f"uv could not lock the packages: {neutralize(said, max_characters=_SHOWN)}"
            )
        return done.stdout

    def _find_program(self) -> str | None:
        beside = str(Path(sys.executable).parent)
        return shutil.which("uv", path=os.pathsep.join((self._variables.get("PATH", ""), beside)))
