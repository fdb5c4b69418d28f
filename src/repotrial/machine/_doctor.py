"""What this machine can do, for people: levels with reasons, and how to get what is missing."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from repotrial._core.errors import MachineError
from repotrial._core.words import Level
from repotrial.isolation import (
    Capabilities,
    CgroupSite,
    LevelFinding,
    Missing,
    find_back_end,
    find_bubblewrap,
    find_identity,
    load_site,
    probe_machine,
)


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found out."""

    findings: tuple[LevelFinding, ...]
    """Strongest level first."""
    site: CgroupSite
    version: tuple[int, ...]
    """Of bubblewrap; empty if there is none."""


def survey_machine() -> Survey:
    """Try every level."""
    return Survey(findings=probe_machine(), site=load_site(), version=find_bubblewrap()[1])


_DELEGATE: Final = (
    "give the harness a control group of its own: systemd-run --user --scope -p Delegate=yes repotrial …"
    " (as root: without --user); on control groups of the first version: run it as root"
)


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
    """The strongest level with isolation that works; None if none does."""
    levels: tuple[DoctorLevel, ...]
    improvements: tuple[Improvement, ...]
    bubblewrap_version: str | None
    sandbox_uid: int | None
    """The account of programs in sandboxes, on the host; None if there is none."""
    is_root: bool


def execute_doctor() -> DoctorReport:
    """Examine this machine, by trying."""
    try:
        uid = find_identity().uid
    except MachineError:  # `sandbox-identity`
        uid = None
    return build_doctor_report(survey_machine(), sandbox_uid=uid, is_root=not os.geteuid())


def build_doctor_report(survey: Survey, *, sandbox_uid: int | None, is_root: bool) -> DoctorReport:
    """The report on what was found out."""
    levels = [_build_level(finding) for finding in survey.findings]
    available = [level.level for level in levels if level.is_available]
    return DoctorReport(
        best=available[0] if available else None,
        levels=tuple(levels),
        improvements=tuple(_find_improvements(survey)),
        bubblewrap_version=".".join(map(str, survey.version)) or None,
        sandbox_uid=sandbox_uid,
        is_root=is_root,
    )


def _build_level(finding: Capabilities | Missing) -> DoctorLevel:
    if isinstance(finding, Capabilities):
        caution = find_back_end(finding.level).caution
        return DoctorLevel(level=finding.level, is_available=True, capabilities=finding, caution=caution)
    return DoctorLevel(level=finding.level, is_available=False, reason=finding.reason, remedy=finding.remedy)


def _find_improvements(survey: Survey) -> list[Improvement]:
    found = []
    missing = [duty for duty in ("memory", "pids", "cpu", "freezer") if duty not in survey.site.homes]
    if missing:
        found.append(
            Improvement(
                what="control groups",
                found=f"none for {', '.join(missing)}: limits are polled, which is weaker evidence",
                remedy=_DELEGATE,
            )
        )
    reached = [finding for finding in survey.findings if isinstance(finding, Capabilities)]
    if reached and (shared := reached[0].list_shared()):
        found.append(
            Improvement(
                what="runs side by side",
                found=f"with --jobs above 1, they still share {'; '.join(shared)}",
                remedy="--jobs 1 for results that count; or root, control groups and Linux 5.19",
            )
        )
    if any(found.syscall_audit == "static" and found.network == "namespace" for found in reached):
        found.append(
            Improvement(
                what="syscall supervisor",
                found="prohibited calls are refused, but not seen",
                remedy="Linux 5.5 or later, and no security profile that forbids seccomp notifications",
            )
        )
    return found
