"""Level L3c against a real engine, and what an engine is asked for in any case."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from repotrial._core.words import Stage
from repotrial.contract import ImageArchive
from repotrial.environment import Store
from repotrial.environment._images._open import open_image
from repotrial.isolation import (
    Account,
    Bind,
    CommandSpec,
    DirectoryRoot,
    Missing,
    ResourceLimits,
    SandboxSpec,
    find_identity,
)
from repotrial.isolation._levels._back_ends.container import find_engine, open_container
from repotrial.isolation._levels._container import ContainerEngine, ContainerSandbox, reap_containers
from repotrial.isolation._levels._container_plan import (
    CONTAINER_LABEL,
    EngineHabits,
    build_container,
    build_exec,
)
from repotrial.trace import Exited, NotStarted, TimedOut
from support.accounts import public_directory
from support.engines import build_image, start_engine
from support.errors import raises_code

OWNER = Account(uid=65533, gid=65533)
SPEC = SandboxSpec(workspace=Path("/w"), binds=(Bind(source=Path("/b"), target="/opt/b"),))


def test_no_privilege_is_ever_asked_for() -> None:
    body = build_container(
        SPEC, image="sha256:0", stage="write", owner=OWNER, label="l", habits=EngineHabits()
    )
    host = body["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert not host.keys() & {"CapAdd", "Devices", "PidMode", "UTSMode", "CgroupParent", "DeviceRequests"}
    assert not body["User"].startswith("0")
    assert build_exec(("true",), cwd="/", variables={}, owner=OWNER)["Privileged"] is False


@pytest.mark.parametrize(("stage", "is_read_only"), [("read", True), ("write", False), ("test", False)])
def test_the_workspace_is_writable_by_stage_and_binds_are_not(stage: Stage, *, is_read_only: bool) -> None:
    body = build_container(
        SPEC,
        image="sha256:0",
        stage=stage,
        owner=OWNER,
        label="l",
        habits=EngineHabits(),
    )
    shown = {mount["Target"]: mount["ReadOnly"] for mount in body["HostConfig"]["Mounts"]}
    assert shown == {"/workspace": is_read_only, "/opt/b": True}


def test_the_first_process_is_never_whom_programs_are() -> None:
    for uid in (65531, 65532, 65533):
        owner = Account(uid=uid, gid=uid)
        body = build_container(
            SPEC, image="sha256:0", stage="write", owner=owner, label="l", habits=EngineHabits()
        )
        assert body["User"] != f"{uid}:{uid}"


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    with start_engine() as socket:
        found = find_engine(socket)
        if isinstance(found, Missing):
            pytest.skip(f"podman does not work here: {found.reason}")
        yield found


@pytest.fixture(scope="module")
def spec() -> Iterator[SandboxSpec]:
    with public_directory() as place:
        build_image().write_archive(place / "image.tar")
        image = open_image(ImageArchive(path="image.tar"), base=place, store=Store(place / "store"))
        (place / "workspace").mkdir()
        os.chown(place / "workspace", find_identity().uid, find_identity().gid)
        yield SandboxSpec(
            workspace=place / "workspace",
            root=DirectoryRoot(path=image.rootfs),
            variables={"PATH": "/bin", "A": "1"},
            limits=ResourceLimits(memory_mb=128, processes=40, tmp_mb=4),
        )


@pytest.fixture(scope="module")
def sandbox(engine: ContainerEngine, spec: SandboxSpec) -> Iterator[ContainerSandbox]:
    with open_container(spec, engine) as opened:
        yield opened


def shell(script: str, **fields: object) -> CommandSpec:
    return msgspec.convert({"argv": ("/bin/sh", "-c", script), **fields}, CommandSpec)


def test_a_program_runs_and_its_end_comes_from_the_engine(sandbox: ContainerSandbox) -> None:
    done = sandbox.run(shell("echo $A$B; echo e >&2; pwd; exit 3", variables={"B": "2"}))
    assert (done.exit, done.cause) == (Exited(code=3), "ended")
    assert done.stdout.prefix == b"12\n/workspace\n"
    assert done.stderr.prefix == b"e\n"
    assert done.usage.cpu_us is not None


def test_a_program_that_is_not_there_was_not_started(sandbox: ContainerSandbox) -> None:
    result = sandbox.run(CommandSpec(argv=("/no/such/program",)))
    assert isinstance(result.exit, NotStarted) or result.exit in {Exited(code=126), Exited(code=127)}


@pytest.mark.parametrize(
    "attempt",
    [
        ": > /planted",
        ": > /bin/planted",
        "cat /proc/1/environ",
        "kill -9 1 && sleep 1 && kill -0 1",
        "mkdir /sys/fs/cgroup/planted",
        "echo x > /proc/sys/kernel/core_pattern",
        "cat /dev/vda || cat /dev/sda || cat /dev/mem",
        "wget -T 3 http://127.0.0.1:$PORT/",
    ],
)
def test_attempt_is_stopped_in_a_container(sandbox: ContainerSandbox, attempt: str) -> None:
    result = sandbox.run(shell(f"( {attempt} )", variables={"PORT": "9"}))
    assert result.exit != Exited(code=0)


def test_a_timeout_ends_everything_and_the_sandbox_goes_on(
    sandbox: ContainerSandbox, spec: SandboxSpec
) -> None:
    late = sandbox.run(shell("(sleep 700 &) ; : > /workspace/kept; sleep 700", timeout_seconds=2))
    assert late.cause == "timeout"
    assert isinstance(late.exit, TimedOut)
    assert late.exit.ceiling_us == 2_000_000 <= (late.exit.observed_us or 0)
    left = sandbox.run(shell("for p in /proc/[0-9]*; do cat $p/cmdline; done"))
    assert b"700" not in left.stdout.prefix
    assert (spec.workspace / "kept").exists()


def test_a_flood_is_cut_off(sandbox: ContainerSandbox) -> None:
    flood = sandbox.run(CommandSpec(argv=("/bin/yes",), output_bytes=10_000))
    assert flood.cause == "output"
    assert flood.stdout.length_bytes == 10_000


def test_stages_begin_with_a_new_container(sandbox: ContainerSandbox) -> None:
    sandbox.enter_stage("read")
    assert sandbox.run(shell("(: > /workspace/refused)")).exit != Exited(code=0)
    sandbox.enter_stage("write")
    assert sandbox.run(shell(": > /workspace/made")).exit == Exited(code=0)


def test_a_container_can_be_paused(sandbox: ContainerSandbox) -> None:
    sandbox.freeze()
    sandbox.resume()
    assert sandbox.run(shell("true")).exit == Exited(code=0)


def test_nothing_is_left_after_the_end(engine: ContainerEngine, spec: SandboxSpec) -> None:
    client = engine.client
    before = {row.id for row in client.list_containers(CONTAINER_LABEL)}
    with open_container(spec, engine):
        assert {row.id for row in client.list_containers(CONTAINER_LABEL)} > before
    assert {row.id for row in client.list_containers(CONTAINER_LABEL)} == before


def test_only_containers_of_the_dead_are_reaped(engine: ContainerEngine, sandbox: ContainerSandbox) -> None:
    assert sandbox.container not in reap_containers(engine.client)
    assert sandbox.run(shell("true")).exit == Exited(code=0)


def test_a_root_of_the_host_is_refused_with_a_hint(engine: ContainerEngine, tmp_path: Path) -> None:
    with raises_code("isolation-level", match="expected an image") as refused:
        open_container(SandboxSpec(workspace=tmp_path), engine)
    assert "digest" in refused.value.hint
