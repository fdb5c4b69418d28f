from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial.sandbox._levels._plain import PLAIN_CAPABILITIES
from repotrial.sandbox._levels._session import Engine
from repotrial.sandbox._machine._doctor import build_doctor_report, execute_doctor
from repotrial.sandbox._machine._probe import Missing, Survey
from repotrial.sandbox._model import Capabilities, Level
from repotrial.sandbox._resources._cgroups import CgroupHome, CgroupSite
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
NOWHERE = CgroupSite(homes={})
ENGINE = Engine(capabilities=WEAK, bubblewrap="/usr/bin/bwrap", version=(0, 7), is_staged=False, site=NOWHERE)
SURVEY = Survey(
    findings=(Missing(level=Level.L3, reason="no overlay", remedy="a newer kernel"), WEAK),
    engines=(ENGINE,),
    site=NOWHERE,
    landlock_abi=0,
    bubblewrap="/usr/bin/bwrap",
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
    assert {better.what for better in report.improvements} == {"control groups", "syscall supervisor"}
    assert all(better.remedy for better in report.improvements)


def test_a_machine_with_everything_has_nothing_to_improve() -> None:
    home = CgroupHome(version="cgroup-v2", directory=Path("/sys/fs/cgroup"))
    survey = msgspec.structs.replace(
        SURVEY,
        engines=(),
        site=CgroupSite(homes={"memory": home, "pids": home, "cpu": home, "freezer": home}),
    )
    assert build_doctor_report(survey, sandbox_uid=1000, is_root=False).improvements == ()


def test_a_machine_without_anything_says_so() -> None:
    survey = msgspec.structs.replace(SURVEY, findings=SURVEY.findings[:1], engines=(), version=())
    report = build_doctor_report(survey, sandbox_uid=None, is_root=True)
    assert report.best is None
    assert report.bubblewrap_version is None


def test_this_machine_can_be_examined_and_the_answer_written_down() -> None:
    require_sandboxes()
    report = execute_doctor()
    assert report.best is Level.L3
    assert msgspec.json.decode(msgspec.json.encode(report))["best"] == "L3"


def test_a_machine_that_has_only_weak_levels_is_told_so() -> None:
    weak = msgspec.structs.replace(WEAK, level=Level.L1)
    survey = msgspec.structs.replace(
        SURVEY, findings=(SURVEY.findings[0], weak, PLAIN_CAPABILITIES), engines=()
    )
    report = build_doctor_report(survey, sandbox_uid=1000, is_root=False)
    assert report.best is Level.L1
    assert "trusted" in report.levels[1].caution
    assert "no isolation" in report.levels[2].caution
    assert report.improvements[0].what == "isolation"
    assert report.improvements[0].remedy == "a newer kernel"


def test_running_without_isolation_is_never_the_best_level() -> None:
    survey = msgspec.structs.replace(SURVEY, findings=(PLAIN_CAPABILITIES,), engines=())
    assert build_doctor_report(survey, sandbox_uid=1000, is_root=False).best is None
