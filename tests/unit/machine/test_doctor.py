from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.words import Level
from repotrial.isolation import Capabilities, CgroupSite, Missing
from repotrial.isolation._resources._cgroups import CgroupHome
from repotrial.machine import execute_doctor
from repotrial.machine._doctor import Survey, build_doctor_report
from support.harness import require_sandboxes

WEAK = Capabilities(
    level=Level.L2,
    network="namespace",
    has_overlay=False,
    has_stages=True,
    syscall_audit="static",
    memory_limit="polled",
    cpu_meter="sampled",
    disk_limit="polled",
    freezer="signals",
    has_images=True,
)
APART: dict[str, Any] = {
    "shared_tree": "overlay",
    "account": "own",
    "cpu_share": "cgroup-v2",
    "memory_limit": "cgroup-v2",
    "disk_limit": "tmpfs",
}
NOWHERE = CgroupSite(homes={})
SURVEY = Survey(
    findings=(Missing(level=Level.L3, reason="no overlay", remedy="a newer kernel"), WEAK),
    site=NOWHERE,
    version=(0, 7),
)


def test_every_level_has_a_reason_or_capabilities() -> None:
    report = build_doctor_report(SURVEY, sandbox_uid=1000, is_root=False)
    assert report.best is Level.L2
    assert [level.is_available for level in report.levels] == [False, True]
    assert report.levels[0].reason == "no overlay"
    assert report.levels[0].remedy == "a newer kernel"
    assert report.levels[1].capabilities == WEAK
    assert report.bubblewrap_version == "0.7"


def test_what_is_weaker_than_it_could_be_has_a_remedy() -> None:
    report = build_doctor_report(SURVEY, sandbox_uid=1000, is_root=False)
    assert {better.what for better in report.improvements} == {
        "control groups",
        "runs side by side",
        "syscall supervisor",
    }
    assert all(better.remedy for better in report.improvements)


def test_a_machine_with_everything_has_nothing_to_improve() -> None:
    home = CgroupHome(version="cgroup-v2", directory=Path("/sys/fs/cgroup"))
    survey = msgspec.structs.replace(
        SURVEY,
        findings=(msgspec.structs.replace(WEAK, syscall_audit="notify", **APART),),
        site=CgroupSite(homes={"memory": home, "pids": home, "cpu": home, "freezer": home}),
    )
    assert build_doctor_report(survey, sandbox_uid=1000, is_root=False).improvements == ()


@pytest.mark.parametrize("name", APART)
def test_what_runs_side_by_side_share_is_said(name: str) -> None:
    apart = msgspec.structs.replace(WEAK, **APART)
    assert apart.list_shared() == ()
    weaker = msgspec.structs.replace(apart, **{name: getattr(WEAK, name)})
    assert len(weaker.list_shared()) == 1
    survey = msgspec.structs.replace(SURVEY, findings=(weaker,))
    improvements = build_doctor_report(survey, sandbox_uid=None, is_root=True).improvements
    assert weaker.list_shared()[0] in {each.what: each.found for each in improvements}["runs side by side"]


def test_a_machine_without_anything_says_so() -> None:
    survey = msgspec.structs.replace(SURVEY, findings=SURVEY.findings[:1], version=())
    report = build_doctor_report(survey, sandbox_uid=None, is_root=True)
    assert report.best is None
    assert report.bubblewrap_version is None


def test_this_machine_can_be_examined_and_the_answer_written_down() -> None:
    require_sandboxes()
    report = execute_doctor()
    assert report.best is Level.L3
    assert msgspec.json.decode(msgspec.json.encode(report))["best"] == "L3"
