from __future__ import annotations

import os
import resource
from pathlib import Path

from repotrial.sandbox._model import ResourceLimits
from repotrial.sandbox._resources._limits import DiskWatch, build_process_limits, measure_tree

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
