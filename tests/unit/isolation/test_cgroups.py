from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.isolation import CgroupSite, ResourceLimits, build_label
from repotrial.isolation._label import parse_label
from repotrial.isolation._resources._cgroups import (
    Cgroup,
    CgroupHome,
    CgroupVersion,
    Duty,
    choose_homes,
    find_cgroup_site,
    move_members,
    reap_cgroups,
    settle_harness,
)
from support.waiting import PATIENCE_SECONDS, wait_until

LIMITS = ResourceLimits(memory_mb=64, processes=40)


@pytest.fixture(scope="module")
def site() -> CgroupSite:
    found = find_cgroup_site()
    if not found.homes:
        pytest.skip("no control group can be made here: not root, and none delegated")
    return found


@pytest.fixture
def group(site: CgroupSite) -> Iterator[Cgroup]:
    made = Cgroup(site, LIMITS)
    yield made
    made.remove()


def start_member(group: Cgroup, code: str) -> subprocess.Popen[bytes]:
    """A process that joins, then runs code."""
    with group.open_join_fds() as join_fds:
        join = f"import os\nfor fd in {join_fds}:\n    os.write(fd, b'0'); os.close(fd)\n"
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", join + code], pass_fds=join_fds, stdout=subprocess.PIPE
        )


def test_a_site_without_anything_is_possible() -> None:
    empty = CgroupSite(homes={})
    assert empty.version("memory") is None
    assert empty.directories == ()


def at_home(version: CgroupVersion, *duties: Duty) -> dict[Duty, CgroupHome]:
    return dict.fromkeys(duties, CgroupHome(version=version, directory=Path("/", version)))


class TestWhoDoesWhat:
    def test_the_new_version_does_all_where_it_can(self) -> None:
        new = at_home("cgroup-v2", "memory", "pids", "cpu", "freezer")
        assert choose_homes(at_home("cgroup-v1", "memory", "cpu"), new) == new

    def test_the_old_version_does_all_that_it_can_where_the_new_lacks_a_controller(self) -> None:
        old = at_home("cgroup-v1", "memory", "pids", "cpu", "freezer")
        assert choose_homes(old, at_home("cgroup-v2", "cpu", "freezer")) == old

    def test_what_the_old_version_lacks_the_new_does(self) -> None:
        old, new = at_home("cgroup-v1", "memory"), at_home("cgroup-v2", "cpu", "freezer")
        assert choose_homes(old, new) == {**old, **new}

    def test_either_may_be_missing(self) -> None:
        some = at_home("cgroup-v1", "pids")
        assert choose_homes(some, {}) == some == choose_homes({}, some)


def test_whoever_joins_is_in_every_group_as_a_whole(group: Cgroup) -> None:
    with start_member(group, "print('in', flush=True); import time; time.sleep(600)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        for directory in group.directories.values():
            assert (directory / "cgroup.procs").read_text().split() == [str(process.pid)]
        process.kill()


def test_groups_are_made_below_our_own(site: CgroupSite) -> None:
    own = Path("/proc/self/cgroup").read_text().split()
    paths = [line.split(":", 2)[2] for line in own]
    for directory in site.directories:
        assert any(str(directory).endswith(path.rstrip("/")) for path in paths)


def test_a_group_carries_its_label_and_goes_away(site: CgroupSite) -> None:
    group = Cgroup(site, LIMITS)
    directories = [*group.directories.values()]
    assert all(parse_label(directory.name) is not None for directory in directories)
    assert group.remove()
    assert not any(directory.exists() for directory in directories)


def test_processor_time_of_members_is_counted(group: Cgroup) -> None:
    if group.version("cpu") is None:
        pytest.skip("no group counts processor time here")
    burn = "import time\nend = time.process_time() + .2\nwhile time.process_time() < end: pass"
    with start_member(group, burn) as process:
        process.wait(PATIENCE_SECONDS)
    assert 150_000 < group.load_cpu_us() < 2_000_000


def test_memory_is_bounded_and_kills_are_counted(group: Cgroup) -> None:
    if group.version("memory") is None:
        pytest.skip("no group bounds memory here")
    assert group.count_memory_kills() == 0
    with start_member(group, "kept = [bytearray(1 << 20) for _ in range(200)]") as process:
        assert process.wait(PATIENCE_SECONDS) == -9
    assert group.count_memory_kills() == 1
    peak = group.load_peak_bytes()
    assert peak is None or peak <= 64 << 20


def test_processes_are_bounded_and_refusals_counted(group: Cgroup) -> None:
    if group.version("pids") is None:
        pytest.skip("no group bounds processes here")
    code = """
import time
children = 0
try:
    for _ in range(100):
        if not os.fork():
            time.sleep(97)
        children += 1
except OSError:
    print(children, flush=True)
os.killpg(0, 9)
"""
    with group.open_join_fds() as join_fds:
        join = f"import os\nfor fd in {join_fds}:\n    os.write(fd, b'0'); os.close(fd)\n"
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", join + code],
            pass_fds=join_fds,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            assert 40 <= int(process.stdout.readline()) < 60
            process.wait(PATIENCE_SECONDS)
    assert group.count_refused_forks() >= 1


def test_whoever_forks_again_and_again_is_ended_with_its_group(group: Cgroup) -> None:
    """At any instant there is another process; no list of them is ever right."""
    code = """
def fork():
    try:
        return os.fork()
    except OSError:
        return -1
for _ in range(8):
    if not fork():
        break
print('in', flush=True)
while True:
    if fork() > 0:
        os._exit(0)
"""
    with start_member(group, code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert group.end()
    assert not any(directory.exists() for directory in group.directories.values())


def name_abandoned() -> str:
    """A label of this boot and namespace, of a process that cannot exist."""
    name = build_label().split("-")
    dead = "-".join([*name[:3], "4194304", "1", name[5]])
    assert (label := parse_label(dead)) is not None
    assert label.is_abandoned
    return dead


def test_what_a_dead_harness_left_is_reaped_with_its_processes(site: CgroupSite) -> None:
    dead = name_abandoned()
    directories = [home / dead for home in site.directories]
    with subprocess.Popen(["/bin/sleep", "97"]) as process:
        for directory in directories:
            directory.mkdir()
        # Any harness that starts now may be quicker than we are.
        with contextlib.suppress(FileNotFoundError):
            (directories[0] / "cgroup.procs").write_text(str(process.pid))
            reap_cgroups(site)
            assert process.wait(PATIENCE_SECONDS) == -9
        process.kill()
    assert wait_until(lambda: not any(directory.exists() for directory in directories))


def test_what_a_dead_harness_left_paused_is_reaped_whatever_the_order_of_groups(site: CgroupSite) -> None:
    if site.version("freezer") is None:
        pytest.skip("no group pauses here")
    freezer = site.homes["freezer"]
    last = CgroupSite(
        homes={**{duty: home for duty, home in site.homes.items() if home != freezer}, "freezer": freezer}
    )
    dead = name_abandoned()
    directories = [home / dead for home in last.directories]
    with subprocess.Popen(["/bin/sleep", "97"]) as process:
        with contextlib.suppress(FileNotFoundError):  # as above
            for directory in directories:
                directory.mkdir()
                (directory / "cgroup.procs").write_text(str(process.pid))
            pause(directories[-1], freezer.version)
            reap_cgroups(last)
            assert not any(directory.exists() for directory in directories)
        process.kill()
    assert wait_until(lambda: not any(directory.exists() for directory in directories))


def pause(directory: Path, version: CgroupVersion) -> None:
    if version == "cgroup-v1":
        (directory / "freezer.state").write_text("FROZEN")
    else:
        (directory / "cgroup.freeze").write_text("1")


def test_groups_of_others_are_not_touched(site: CgroupSite, group: Cgroup) -> None:
    stranger = site.directories[0] / "repotrial-something-else"
    stranger.mkdir()
    try:
        assert {stranger, *group.directories.values()}.isdisjoint(reap_cgroups(site))
        assert stranger.exists()
        assert all(directory.exists() for directory in group.directories.values())
    finally:
        stranger.rmdir()


def test_a_group_that_has_settled_is_looked_at_from_above(tmp_path: Path) -> None:
    home = tmp_path / build_label()
    assert settle_harness(home) == tmp_path
    assert settle_harness(tmp_path) == tmp_path


def test_members_move_together(site: CgroupSite) -> None:
    parent = site.directories[0] / build_label()
    child = parent / build_label()
    child.mkdir(parents=True)
    try:
        with subprocess.Popen(["/bin/sleep", "97"]) as process:
            (parent / "cgroup.procs").write_text(str(process.pid))
            move_members(parent, child)
            assert (child / "cgroup.procs").read_text().split() == [str(process.pid)]
            process.kill()
    finally:
        child.rmdir()
        parent.rmdir()


def test_a_limit_that_is_refused_leaves_no_group(site: CgroupSite) -> None:
    before = list_own_groups(site)
    if not {"memory", "pids"} & site.homes.keys():
        pytest.skip("nothing here takes limits")
    with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel says
        Cgroup(site, ResourceLimits(memory_mb=10**15, processes=-(10**6)))
    assert list_own_groups(site) <= before


def list_own_groups(site: CgroupSite) -> set[Path]:
    """Those of this process: others come and go in tests that run at the same time."""
    made = (path for home in site.directories for path in home.glob("repotrial-*"))
    return {path for path in made if (label := parse_label(path.name)) and label.pid == os.getpid()}


def test_a_group_divides_processor_time_where_the_machine_can(site: CgroupSite, group: Cgroup) -> None:
    if site.version("memory") is None:
        pytest.skip("no controllers are delegated here")
    weight = "cpu.weight" if group.version("share") == "cgroup-v2" else "cpu.shares"
    assert (group.directories["share"] / weight).read_text() in {"100\n", "1024\n"}
    assert group.load_starved_us() in {None, 0}
