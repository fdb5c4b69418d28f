"""Places of workspaces: what dead processes left is removed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

from repotrial.workspace import CopyWorkspace, OverlayWorkspace, WorkspacePlace, reap_workspaces
from support.workspaces import make_base, scratch


def test_only_labelled_places_without_a_user_are_reaped() -> None:
    with scratch() as place, make_base(place, {"a": "x"}) as base:
        runs = place / "runs"
        living = OverlayWorkspace(base, runs)
        (runs / "repotrial-workspace-unlabelled").mkdir()
        (runs / "other").mkdir()
        (runs / "repotrial-workspace-link").symlink_to(place / "cache")
        dead = runs / "repotrial-workspace-dead"
        script = "import os,sys; os.makedirs(sys.argv[1]+'/upper/d/e'); os.chmod(sys.argv[1]+'/upper/d', 0)"
        subprocess.run([sys.executable, "-c", script, str(dead)], check=True)
        (dead / "label").write_bytes((living.mount.upper.parent / "label").read_bytes())
        assert reap_workspaces(runs) == [dead]
        assert living.upper.is_dir()
        living.close()
        living.close()
        assert sorted(path.name for path in runs.iterdir()) == [
            "other",
            "repotrial-workspace-link",
            "repotrial-workspace-unlabelled",
        ]


def test_a_place_whose_maker_died_before_labeling_it_is_reaped_once_it_is_old() -> None:
    with scratch() as place:
        old, young, used = (place / f"repotrial-workspace-{name}" for name in ("old", "young", "used"))
        for path in (old, young, used):
            path.mkdir()
            (path / "label").touch()
        (used / "file").touch()
        for path in (old, used):
            os.utime(path, (0, 0))
        assert reap_workspaces(place) == [old]
        assert sorted(place.iterdir()) == sorted([used, young])


def test_workspaces_in_one_place_live_and_die_with_its_lock() -> None:
    with scratch() as place, make_base(place, {"a": "x"}) as base:
        runs = place / "runs"
        shared = WorkspacePlace(runs, owner=base.owner)
        first, second = OverlayWorkspace(base, shared), CopyWorkspace(base, shared)
        assert {first.upper.parent.parent, second.path.parent.parent} == {shared.path}
        assert reap_workspaces(runs) == []
        first.close()
        first.close()
        assert not first.upper.exists()
        assert (second.path / "a").exists()
        shared.remove()  # one that nobody closed goes with it
        assert list(runs.iterdir()) == []


def test_a_part_that_was_given_back_is_empty_for_the_next_whatever_was_in_it() -> None:
    with scratch() as place, make_base(place, {"a": "x"}) as base:
        shared = WorkspacePlace(place / "runs", owner=base.owner)
        first = OverlayWorkspace(base, shared)
        part = first.upper.parent
        deep = first.upper / "b" / "c" / "d"
        deep.mkdir(parents=True)
        (deep / "file").touch()
        deep.chmod(0)
        first.upper.chmod(0o1777)
        first.close()
        first.close()
        assert list(part.iterdir()) == []
        with OverlayWorkspace(base, shared) as second, OverlayWorkspace(base, shared) as third:
            assert second.upper.parent == part
            assert third.upper.parent != part
            assert list(second.upper.iterdir()) == []
            assert second.upper.stat().st_mode == third.upper.stat().st_mode
        shared.remove()
        assert list((place / "runs").iterdir()) == []


def test_there_is_nothing_to_reap_where_nothing_is() -> None:
    with scratch() as place:
        assert reap_workspaces(place / "missing") == []


def test_a_copy_keeps_permissions_times_and_links() -> None:
    with (
        scratch() as place,
        make_base(place, {"a": "x", "b.sh": "y"}) as base,
        CopyWorkspace(base, place / "runs") as copy,
    ):
        for name in ("a", "b.sh"):
            one, other = (base.path / name).stat(), (copy.path / name).stat()
            assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns)
            assert one.st_uid == other.st_uid
            assert one.st_ino != other.st_ino


def test_places_that_are_made_and_removed_while_others_reap_stay_whole() -> None:
    with scratch() as parent:
        ended = threading.Event()

        def reap() -> None:
            while not ended.is_set():
                assert reap_workspaces(parent) == []

        def use() -> None:
            for _ in range(40):
                place = WorkspacePlace(parent, owner=None)
                inner = place.path / "work" / "work"
                inner.mkdir(parents=True)
                inner.chmod(0)
                assert (place.path / "label").is_file()
                place.remove()
                assert not place.path.exists()

        with ThreadPoolExecutor(4) as pool:
            reapers = [pool.submit(reap) for _ in range(2)]
            users = [pool.submit(use) for _ in range(2)]
            wait(users)
            ended.set()
            for user in users:
                user.result()
            for reaper in reapers:
                reaper.result()
        assert [*parent.iterdir()] == []


def test_a_place_that_two_threads_remove_is_removed_once() -> None:
    with scratch() as parent, ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            place = WorkspacePlace(parent, owner=None)
            (place.path / "work" / "work" / "deep").mkdir(parents=True)
            for done in [pool.submit(place.remove) for _ in range(2)]:
                done.result()
        assert [*parent.iterdir()] == []
