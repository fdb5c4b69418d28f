from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from repotrial._core.words import Level, SandboxPhase
from repotrial.contract import AllowListNetwork, Contract, Environment, Mount, SetupStep, load_contract
from repotrial.contract._environment import Secret
from repotrial.environment import ScratchPlace, build_resource_limits
from repotrial.environment._installation._contract_environment import build_variables
from repotrial.environment._installation._mounts import (
    build_host_bind,
    build_outputs,
    build_scratch,
    verify_targets,
)
from repotrial.environment._installation._sandbox import describe_end, render_tail
from repotrial.environment._installation._setup_network import verify_setup_network
from repotrial.isolation import (
    Capabilities,
    CgroupSite,
    CommandResult,
    HostRoot,
    ResourceUsage,
    SandboxSpec,
    Scratch,
    StreamCapture,
)
from repotrial.isolation._levels._bubblewrap import Engine, build_order
from repotrial.isolation._resources._limits import DiskWatch
from repotrial.run import ProxiedSetup
from repotrial.trace import Exited, ExitStatus, Signaled, TimedOut
from support.contracts import write_contract
from support.errors import raises_code

_CAPABILITIES = Capabilities(
    level=Level.L3,
    network="namespace",
    has_overlay=True,
    has_stages=True,
    syscall_audit="notify",
    memory_limit="polled",
    cpu_meter="sampled",
    disk_limit="polled",
    freezer="signals",
    has_images=True,
)


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    return load_contract(write_contract(tmp_path / "contract")).contract


def _vary(
    contract: Contract, *, setup: tuple[SetupStep, ...] = (), mounts: tuple[Mount, ...] = ()
) -> Contract:
    environment = msgspec.structs.replace(contract.environment, mounts=mounts)
    return msgspec.structs.replace(contract, setup=setup, environment=environment)


@pytest.mark.parametrize("phase", ["setup", "act", "accept"])
def test_a_secret_is_among_the_variables_of_its_phases_alone(phase: SandboxPhase) -> None:
    environment = Environment(image="host", secrets=(Secret(name="KEY", reason="signs"),))
    found = build_variables(environment, phase=phase, found={}, secrets={"KEY": "1"}, added={})
    assert ("KEY" in found) is (phase == "accept")


def test_what_must_be_absent_is_not_set_whoever_wants_it() -> None:
    environment = Environment(image="host", variables={"A": "1"}, absent=("A", "B", "C", "TZ"))
    found = build_variables(environment, phase="act", found={"B": "2"}, secrets={}, added={"C": "3"})
    assert found.keys() == {"HOME", "LANG", "PYTHONHASHSEED"}


def test_outputs_in_the_tree_stay_there_and_others_get_numbered_places(contract: Contract) -> None:
    steps = (SetupStep(run="x", outputs=("build", "/opt/a", "/workspace/out")),)
    mounts = (Mount(target="/opt/b", kind="cache"), Mount(target="/opt/a", kind="cache"))
    outputs = build_outputs(_vary(contract, setup=steps, mounts=mounts))
    assert outputs.in_tree == ("build", "out")
    binds = outputs.build_binds(Path("/base/outputs"), is_writable=False)
    assert [(str(bind.source), bind.target) for bind in binds] == [
        ("/base/outputs/0", "/opt/a"),
        ("/base/outputs/1", "/opt/b"),
    ]


def test_a_size_for_the_temporary_directory_is_a_limit_and_no_second_mount() -> None:
    mounts = (Mount(target="/tmp/", kind="tmpfs", size_mb=7), Mount(target="/opt/x", kind="tmpfs"))
    scratch, tmp_mb = build_scratch(mounts)
    assert (scratch, tmp_mb) == ((Scratch(target="/opt/x", size_mb=512),), 7)


@pytest.mark.parametrize("source", [None, "relative", "/", "/dev/shm", "/proc", "/run/user", "HOME", "ABOVE"])
def test_a_directory_that_shows_too_much_of_the_host_is_refused(tmp_path: Path, source: str | None) -> None:
    home = tmp_path / "operator"
    home.mkdir()
    named = {"HOME": str(home), "ABOVE": str(tmp_path)}.get(source or "", source)
    mount = Mount(target="/opt/m", kind="host-read-only", source=named)
    with raises_code("mount-refused"):
        build_host_bind(mount, private=(home,))


def test_a_link_to_a_private_directory_is_refused_like_the_directory(tmp_path: Path) -> None:
    (tmp_path / "operator").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "operator")
    mount = Mount(target="/opt/m", kind="host-read-only", source=str(tmp_path / "link"))
    with raises_code("mount-refused"):
        build_host_bind(mount, private=(tmp_path / "operator",))


@pytest.mark.parametrize("target", ["/", "/workspace", "/usr/nowhere", "/lib/nowhere"])
def test_nothing_appears_where_there_is_no_room_for_it(target: str) -> None:
    with raises_code("target-taken"):
        verify_targets(HostRoot(), [target])


def test_a_step_with_network_is_refused_by_its_name_where_nobody_opens_it() -> None:
    network = AllowListNetwork(hosts=("packages.example.org",))
    steps = (SetupStep(run="x"), SetupStep(run="y", id="fetch", network=network))
    with raises_code("setup-network", match=r"fetch: .* found none"):
        verify_setup_network(steps, None, _CAPABILITIES)


@pytest.mark.parametrize("kind", ["container", "filtered", "open"])
def test_a_step_with_network_is_refused_at_a_level_without_a_network_of_ours(
    kind: Literal["container", "filtered", "open"],
) -> None:
    steps = (SetupStep(run="y", network=AllowListNetwork(hosts=("packages.example.org",))),)
    verify_setup_network(steps, ProxiedSetup(), _CAPABILITIES)
    other = msgspec.structs.replace(_CAPABILITIES, network=kind)
    verify_setup_network((SetupStep(run="x"),), None, other)
    with raises_code("setup-network", match=r"step 1: .* found level L3"):
        verify_setup_network(steps, ProxiedSetup(), other)


def test_limits_are_those_that_kill_and_processor_time_is_the_agents_alone(contract: Contract) -> None:
    limits = msgspec.structs.replace(contract.limits, cpu_seconds=9)
    varied = msgspec.structs.replace(contract, limits=limits)
    act, accept = (build_resource_limits(varied.limits, phase=phase) for phase in ("act", "accept"))
    assert (act.memory_mb, act.disk_mb, act.processes, act.cpu_seconds) == (2048, 4096, 512, 9)
    assert accept.cpu_seconds is None


def test_scratch_spaces_have_their_size_and_outer_mounts_come_first() -> None:
    spec = SandboxSpec(
        workspace=Path("/somewhere/tree"),
        scratch=(Scratch(target="/opt/a/b", size_mb=2), Scratch(target="/opt/a", size_mb=1)),
    )
    engine = Engine(
        capabilities=_CAPABILITIES,
        bubblewrap="bwrap",
        version=(0, 8, 0),
        is_staged=True,
        site=CgroupSite(homes={}),
    )
    text = " ".join(build_order(spec, engine)["arguments"])
    assert "--size 1048576 --tmpfs /opt/a --perms 0700 --size 2097152 --tmpfs /opt/a/b" in text


def test_space_is_counted_in_every_directory_that_can_be_written(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    watch = DiskWatch(first, second, limit_bytes=2**20)
    assert not watch.is_exceeded(is_forced=True)
    (second / "big").write_bytes(bytes(2 * 2**20))
    assert watch.is_exceeded(is_forced=True)


def test_a_scratch_place_writes_no_file_twice_and_follows_no_link(tmp_path: Path) -> None:
    with ScratchPlace(tmp_path, owner=None) as place:
        place.write("a/b", b"1", is_executable=True)
        assert (place.path / "a/b").stat().st_mode & 0o777 == 0o755
        (place.path / "link").symlink_to(tmp_path / "outside")
        for name in ("a/b", "link"):
            with pytest.raises(FileExistsError):
                place.write(name, b"2")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Exited(code=3), "exit code 3"),
        (Signaled(signal=9), "signal 9"),
        (TimedOut(ceiling_us=2_000_000), "no end within 2 s"),
    ],
)
def test_an_end_is_told_in_words_and_output_by_its_tail(status: ExitStatus, words: str) -> None:
    capture = StreamCapture(prefix=b"\x1b[2J" + b"x" * 5000 + b"the end", digest="", length_bytes=5011)
    empty = StreamCapture(prefix=b"", digest="", length_bytes=0)
    result = CommandResult(
        exit=status, cause="ended", stdout=capture, stderr=empty, usage=ResourceUsage(wall_us=1)
    )
    assert describe_end(result) == words
    assert render_tail(result).endswith("the end")
    assert len(render_tail(result)) < 2000
