from __future__ import annotations

import msgspec
import pytest

from repotrial._core.words import Level
from repotrial.contract import Environment, ImageReference, Limits, Policy
from repotrial.environment._installation._level import check_requirements
from repotrial.isolation import Capabilities

STRONG = Capabilities(
    level=Level.L3,
    network="namespace",
    has_overlay=True,
    has_stages=True,
    syscall_audit="notify",
    memory_limit="cgroup-v2",
    cpu_meter="cgroup-v2",
    disk_limit="polled",
    freezer="cgroup-v2",
    has_images=True,
)
HOST = Environment(image="host")
IMAGE = Environment(image=ImageReference(reference="x@sha256:" + "0" * 64))
POLICY = Policy()
LIMITS = Limits()


def fields(capabilities: Capabilities, environment: Environment = HOST, policy: Policy = POLICY) -> list[str]:
    needs = check_requirements(capabilities, environment, policy, LIMITS)
    assert all(need.reason and need.remedy for need in needs)
    return [need.field for need in needs]


def test_nothing_is_missing_at_level_3() -> None:
    assert fields(STRONG) == []
    assert fields(STRONG, IMAGE) == []


@pytest.mark.parametrize(
    ("found", "needed", "is_enough"),
    [("L3", "L3", True), ("L3", "L1", True), ("L2", "L3", False), ("L2", "L2", True), ("L3c", "L3", False)],
)
def test_a_weaker_level_than_the_contract_allows_is_refused(
    found: str, needed: str, *, is_enough: bool
) -> None:
    capabilities = msgspec.structs.replace(STRONG, level=Level(found))
    environment = msgspec.convert({"image": "host", "isolation": needed}, Environment)
    assert fields(capabilities, environment) == ([] if is_enough else ["environment.isolation"])


def test_everything_that_is_lacking_is_listed() -> None:
    policy = Policy(test_tools=("/usr/bin/pytest",))
    bare = msgspec.structs.replace(
        STRONG, has_stages=False, memory_limit="none", disk_limit="none", has_images=False
    )
    assert fields(bare, IMAGE, policy) == [
        "environment.image",
        "policy.stages",
        "policy.test_tools",
        "limits.memory_mb",
        "limits.disk_mb",
    ]


def test_a_single_stage_needs_no_changes() -> None:
    capabilities = msgspec.structs.replace(STRONG, has_stages=False)
    assert fields(capabilities, policy=Policy(stages="single")) == []
    assert fields(capabilities) == ["policy.stages"]


def test_a_system_call_that_is_never_granted_is_refused() -> None:
    assert fields(STRONG, Environment(image="host", system_calls=("ptrace",))) == []
    assert fields(STRONG, Environment(image="host", system_calls=("mount",))) == ["environment.system_calls"]


def test_processor_time_needs_a_meter() -> None:
    capabilities = msgspec.structs.replace(STRONG, cpu_meter="none")
    needs = check_requirements(capabilities, HOST, POLICY, Limits(cpu_seconds=5))
    assert [need.field for need in needs] == ["limits.cpu_seconds"]
