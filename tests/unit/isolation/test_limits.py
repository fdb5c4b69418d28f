from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import ResourceLimits
from repotrial.isolation._resources._limits import DiskWatch, build_process_limits, measure_tree
from support.errors import raises_code

MEGABYTE = 1024**2


def build(limits: ResourceLimits, *, has_process_group: bool) -> dict[int, int]:
    pairs = build_process_limits(limits, has_process_group=has_process_group)
    return {pair[0]: pair[1] for pair in pairs}


def test_each_ceiling_has_its_resource() -> None:
    limits = ResourceLimits(processes=100, open_files=50, file_mb=2, cpu_seconds=7)
    ceilings = build(limits, has_process_group=False)
    assert ceilings[resource.RLIMIT_CORE] == 0
    assert ceilings[resource.RLIMIT_NOFILE] == 50
    assert ceilings[resource.RLIMIT_FSIZE] == 2 * MEGABYTE
    assert ceilings[resource.RLIMIT_CPU] == 8
    assert ceilings[resource.RLIMIT_NPROC] >= 100


def test_a_control_group_refuses_before_the_kernels_own_limit() -> None:
    limits = ResourceLimits(processes=100)
    with_group = build(limits, has_process_group=True)
    without = build(limits, has_process_group=False)
    assert with_group[resource.RLIMIT_NPROC] > without[resource.RLIMIT_NPROC] + 8


def test_what_was_there_before_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(os.urandom(3 * MEGABYTE))
    watch = DiskWatch(tmp_path, limit_bytes=2 * MEGABYTE)
    (tmp_path / "small").write_bytes(os.urandom(MEGABYTE))
    assert not watch.is_exceeded(is_forced=True)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "large").write_bytes(os.urandom(2 * MEGABYTE))
    assert watch.is_exceeded(is_forced=True)


def test_it_does_not_look_all_the_time(tmp_path: Path) -> None:
    watch = DiskWatch(tmp_path, limit_bytes=1, interval_seconds=3600)
    assert not watch.is_exceeded()
    (tmp_path / "large").write_bytes(os.urandom(MEGABYTE))
    assert not watch.is_exceeded()
    assert watch.is_exceeded(is_forced=True)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "large").write_bytes(os.urandom(5 * MEGABYTE))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "large")
    (inside / "loop").symlink_to(inside)
    assert measure_tree(inside) < MEGABYTE


def nest(directory: Path, levels: int, data: bytes) -> None:
    """Put data where no path leads."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("dddd", dir_fd=handle)
        below = os.open("dddd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = below
    file = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=handle)
    os.write(file, data)
    os.close(file)
    os.close(handle)


@contextlib.contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """So many more can be opened, and none beyond."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open("/", os.O_RDONLY)
    os.close(first)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestHiding:
    """Whoever looks may not be led to give up: a run that the harness cannot conduct counts for nobody."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[Path]:
        tree = tmp_path / "tree"
        tree.mkdir()
        yield tree
        remove_tree(tree)

    @pytest.mark.parametrize("levels", [15, 16, 17, 18, 1100])
    def test_below_very_many_directories(self, tree: Path, levels: int) -> None:
        nest(tree, levels, os.urandom(4 * MEGABYTE))
        before = len(os.listdir("/proc/self/fd"))
        assert 4 * MEGABYTE <= measure_tree(tree) <= 4 * MEGABYTE + (levels + 2) * 4096
        assert len(os.listdir("/proc/self/fd")) == before

    def test_in_very_many_deep_places(self, tree: Path) -> None:
        place = tree.joinpath(*["d"] * 101)
        place.mkdir(parents=True)
        for number in range(6000):
            (place / str(number)).mkdir()
        before = len(os.listdir("/proc/self/fd"))
        watch = DiskWatch(tree, limit_bytes=0)
        assert measure_tree(tree) > 1 << 40
        assert len(os.listdir("/proc/self/fd")) == before
        assert not watch.is_exceeded(is_forced=True)  # it was so before

    def test_below_more_directories_than_descriptors(self, tree: Path) -> None:
        """With hundreds open at a time, the harness would run out of them, for this run and for others."""
        place = tree.joinpath(*["d"] * 100)
        place.mkdir(parents=True)
        for number in range(190):
            (place / str(number)).mkdir()
            (place / str(number) / "f").write_bytes(b"x" * MEGABYTE)
        with few_descriptors(24):
            used = measure_tree(tree)
        assert used >= 190 * MEGABYTE

    def test_without_descriptors_nothing_is_taken_for_empty(self, tree: Path) -> None:
        (tree / "d" / "e").mkdir(parents=True)
        with few_descriptors(1), raises_code("disk-unmeasured", match="open files"):
            measure_tree(tree)


def test_many_small_files_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repotrial.isolation._resources._limits._FEWEST_ENTRIES", 50)
    watch = DiskWatch(tmp_path, limit_bytes=2**20)
    for number in range(60):
        (tmp_path / str(number)).touch()
    assert not watch.is_exceeded(is_forced=True)
    for number in range(60, 200):
        (tmp_path / str(number)).touch()
    assert watch.is_exceeded(is_forced=True)
