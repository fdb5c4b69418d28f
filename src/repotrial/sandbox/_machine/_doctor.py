"""What this machine can do, for people: levels with reasons, and how to get what is missing."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from repotrial.sandbox._identity import IdentityError, find_identity
from repotrial.sandbox._machine._probe import Missing, Survey, survey_machine
from repotrial.sandbox._model import Capabilities, Level

__all__ = ["DoctorLevel", "DoctorReport", "Improvement", "build_doctor_report", "execute_doctor"]

_DELEGATE: Final = (
    "give the harness a control group of its own: systemd-run --user --scope -p Delegate=yes repotrial …"
    " (as root: without --user); on control groups of the first version: run it as root"
)
_CAUTIONS: Final = {
    Level.L1: (
        "for code that is trusted: no namespaces; names of the host's files and modes of files of the same"
        " user are open, rights cannot be taken from running programs, and no sockets at all can be made"
    ),
    Level.L0: "no isolation: only on explicit wish, and nothing measured there can be compared",
    Level.L3C: "a stage change or a timeout ends everything in the container; refused calls are not seen",
}


class DoctorLevel(msgspec.Struct, frozen=True, kw_only=True):
    """One isolation level on this machine."""

    level: Level
    is_available: bool
    capabilities: Capabilities | None = None
    reason: str = ""
    """Why it is not available."""
    remedy: str = ""
    caution: str = ""
    """What it does not promise although it works."""


class Improvement(msgspec.Struct, frozen=True, kw_only=True):
    """Something that works, but would work better."""

    what: str
    found: str
    remedy: str


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `repotrial doctor`."""

    best: Level | None
    """The strongest level with isolation that works; null if none does."""
    levels: tuple[DoctorLevel, ...]
    improvements: tuple[Improvement, ...]
    bubblewrap_version: str | None
    landlock_abi: int
    """Zero where the kernel has no Landlock."""
    sandbox_uid: int | None
    """Who programs in sandboxes are on the host; null if there is nobody."""
    is_root: bool


def execute_doctor() -> DoctorReport:
    """Examine this machine, by trying."""
    try:
        uid = find_identity().uid
    except IdentityError:
        uid = None
    return build_doctor_report(survey_machine(), sandbox_uid=uid, is_root=not os.geteuid())


def build_doctor_report(survey: Survey, *, sandbox_uid: int | None, is_root: bool) -> DoctorReport:
    """The report on what was found out."""
    levels = [_build_level(finding) for finding in survey.findings]
    available = [level.level for level in levels if level.is_available and level.level is not Level.L0]
    return DoctorReport(
        best=available[0] if available else None,
        levels=tuple(levels),
        improvements=tuple(_find_improvements(survey)),
        bubblewrap_version=".".join(map(str, survey.version)) or None,
        landlock_abi=survey.landlock_abi,
        sandbox_uid=sandbox_uid,
        is_root=is_root,
    )


def _build_level(finding: Capabilities | Missing) -> DoctorLevel:
    if isinstance(finding, Capabilities):
        caution = _CAUTIONS.get(finding.level, "")
        return DoctorLevel(level=finding.level, is_available=True, capabilities=finding, caution=caution)
    return DoctorLevel(level=finding.level, is_available=False, reason=finding.reason, remedy=finding.remedy)


def _find_improvements(survey: Survey) -> list[Improvement]:
    found = []
    reached = {finding.level for finding in survey.findings if isinstance(finding, Capabilities)}
    if reached and not reached & {Level.L3, Level.L3C, Level.L2}:
        found.append(
            Improvement(
                what="isolation",
                found=_CAUTIONS[Level.L1 if Level.L1 in reached else Level.L0],
                remedy=next((f.remedy for f in survey.findings if isinstance(f, Missing)), ""),
            )
        )
    missing = [duty for duty in ("memory", "pids", "cpu", "freezer") if duty not in survey.site.homes]
    if missing:
        found.append(
            Improvement(
                what="control groups",
                found=f"none for {', '.join(missing)}: limits are polled, which is weaker evidence",
                remedy=_DELEGATE,
            )
        )
    if any(engine.capabilities.syscall_audit == "static" for engine in survey.engines):
        found.append(
            Improvement(
                what="syscall supervisor",
                found="prohibited calls are refused, but not seen",
                remedy="Linux 5.5 or later, and no security profile that forbids seccomp notifications",
            )
        )
    return found
