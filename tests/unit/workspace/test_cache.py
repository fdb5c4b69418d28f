"""The cache of bases: made once, sealed, verified, and removed only when nobody uses them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.digest import Digest, digest_bytes
from repotrial.contract import GitRepository, SubmodulePin
from repotrial.source import resolve_snapshot
from repotrial.workspace import Base, BaseCache, BaseRequest, SetupPlace, check_sealed
from support.errors import raises_code
from support.repositories import RepositoryMaker
from support.workspaces import OWNER, build_request, make_base, scratch

FILES = {"a.txt": "one\n", "src/b.sh": "#!/bin/sh\n", "configure": "x", "configure.ac": "y"}


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as made:
        yield made


class CountingSetup:
    """Setup that runs a function and counts."""

    def __init__(self, name: str = "one", action: str = "(tree / 'built').write_text('x')") -> None:
        self.digest: Digest = digest_bytes(name.encode())
        self.action = action
        self.calls = 0

    def execute(self, place: SetupPlace) -> None:
        self.calls += 1
        exec(self.action, {"tree": place.tree, "outputs": place.outputs, "os": os})


def _git(base: Base, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", f"safe.directory={base.path}", *args],
        cwd=base.path,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_base_has_exactly_the_files_of_the_snapshot_and_one_commit(place: Path) -> None:
    with make_base(place, FILES) as base:
        assert {str(path.relative_to(base.path)) for path in base.path.rglob("*") if path.is_file()} >= set(
            FILES
        )
        assert base.tracked == {name.encode() for name in FILES}
        assert check_sealed(base, ["0" * 40]) == []
        assert _git(base, "rev-list", "--all") == base.label.commit
        assert _git(base, "status", "--porcelain") == ""
        assert not (base.path / ".git/hooks").exists()


def test_the_commit_is_the_same_wherever_it_is_made(place: Path) -> None:
    commits = []
    for name in ("one", "two"):
        (place / name).mkdir()
        with make_base(place / name, FILES) as base:
            commits.append(base.label.commit)
    assert commits[0] == commits[1]


def test_files_belong_to_the_account_that_works_on_them(place: Path) -> None:
    uid = os.geteuid() if OWNER is None else OWNER.uid
    with make_base(place, FILES) as base:
        for path in [base.path, *base.path.rglob("*")]:
            assert path.lstat().st_uid == uid
        assert stat.S_IMODE((base.path / "src/b.sh").stat().st_mode) == 0o755
        assert stat.S_IMODE((base.path / "a.txt").stat().st_mode) == 0o644


def test_describe_prints_what_the_contract_says(place: Path) -> None:
    with make_base(place, FILES, describe="v1.2-3-gabcdef0") as base:
        assert _git(base, "describe") == "v1.2-3-gabcdef0"
        assert check_sealed(base) == []


@pytest.mark.parametrize("describe", ["", "a b", "-x", "v1..2", "x.lock"])
def test_what_no_tag_can_be_called_is_refused(place: Path, describe: str) -> None:
    with raises_code("describe-refused"), make_base(place, FILES, describe=describe):
        pass
    assert list((place / "cache" / "making").iterdir()) == []


def test_times_ascend_in_the_order_of_the_contract(place: Path) -> None:
    with make_base(place, FILES, mtime_order=("configure.ac", "configure")) as base:
        times = [(base.path / name).stat().st_mtime for name in ("a.txt", "configure.ac", "configure")]
        assert times == sorted(set(times))


def test_an_order_of_files_that_are_not_there_is_refused(place: Path) -> None:
    with raises_code("mtime-order-missing"), make_base(place, FILES, mtime_order=("missing",)):
        pass


def test_another_tree_than_the_locked_one_is_refused(place: Path) -> None:
    request = build_request(place, FILES)
    (request.directory / "files" / "a.txt").write_text("changed")
    with raises_code("base-mismatch"):
        BaseCache(place / "cache", owner=OWNER).prepare_base(request)


def test_setup_runs_once_and_its_product_is_kept(place: Path) -> None:
    setup = CountingSetup(action="(tree / 'built').write_text('x'); (outputs / 'o').write_text('y')")
    for _ in range(2):
        with make_base(place, FILES, setup=setup) as base:
            assert (base.path / "built").read_text() == "x"
            assert (base.outputs / "o").read_text() == "y"
            assert b"built" not in base.tracked
    assert setup.calls == 1
    other = CountingSetup("two", action="(tree / 'other').write_text('z')")
    with make_base(place, FILES, setup=other) as base:
        assert not (base.path / "built").exists()


def test_what_setup_does_to_the_history_is_undone(place: Path) -> None:
    action = (
        "(tree / '.git/refs/heads/evil').write_text('0' * 40);"
        "(tree / '.git/config').write_text('[core]\\n\\tfsmonitor = touch /tmp/owned\\n');"
        "os.mkfifo(tree / 'pipe')"
    )
    with make_base(place, FILES, setup=CountingSetup(action=action)) as base:
        assert check_sealed(base) == []
        assert not (base.path / "pipe").exists()


def test_a_repository_that_setup_leaves_in_the_tree_is_refused(place: Path) -> None:
    setup = CountingSetup(
        action="(tree / 'vendor').mkdir(); (tree / 'vendor' / '.git').write_text('gitdir: x')"
    )
    with raises_code("base-not-sealed"), make_base(place, FILES, setup=setup):
        pass


def test_a_commit_with_submodules_becomes_plain_files_without_the_future(place: Path) -> None:
    inner = RepositoryMaker(place / "contract" / "inner")
    inner_commit = inner.commit({"lib.c": "int x;\n"})
    outer = RepositoryMaker(place / "contract" / "outer")
    outer.commit({"main.c": "int main;\n"})
    outer.add_submodule("vendor/inner", inner_commit, url="../inner")
    commit = outer.commit_index()
    future = outer.commit({"main.c": "int fixed;\n"})
    pin = SubmodulePin(path="vendor/inner", commit=inner_commit, source="inner")
    repository = GitRepository(source="outer", commit=commit, submodules=(pin,))
    snapshot = resolve_snapshot(repository, base=place / "contract")
    request = BaseRequest(
        repository=repository, directory=place / "contract", tree_digest=snapshot.tree_digest
    )
    with BaseCache(place / "cache", owner=OWNER).prepare_base(request) as base:
        assert (base.path / "vendor/inner/lib.c").read_text() == "int x;\n"
        assert not (base.path / "vendor/inner/.git").exists()
        assert check_sealed(base, [future, commit, inner_commit]) == []
        assert (base.path / "main.c").read_text() == "int main;\n"


def test_a_base_that_was_changed_is_refused(place: Path) -> None:
    with make_base(place, FILES) as base:
        path = base.path
    (path / "a.txt").write_text("evil\n")
    with raises_code("base-tampered"), make_base(place, FILES):
        pass


def test_a_base_that_was_only_touched_is_read_again_and_accepted(place: Path) -> None:
    with make_base(place, FILES) as base:
        path = base.path
    os.utime(path / "a.txt")
    with make_base(place, FILES) as base:
        base.verify()


def test_listing_shows_use_and_pruning_respects_it(place: Path) -> None:
    cache = BaseCache(place / "cache", owner=OWNER)
    with make_base(place, FILES) as base:
        (entry,) = cache.list_entries()
        assert entry.is_in_use
        assert entry.label == base.label
        assert cache.prune() == []
    assert not cache.list_entries()[0].is_in_use
    assert cache.prune(unused_seconds=3600) == []
    assert cache.prune(max_bytes=10**9) == []
    assert [removed.label for removed in cache.prune(max_bytes=0)] == [base.label]
    assert cache.list_entries() == []
    assert list((place / "cache" / "entries").iterdir()) == []


def test_pruning_by_size_takes_the_longest_unused_first(place: Path) -> None:
    keys = []
    for name in ("one", "two", "three"):
        with make_base(place, FILES, environment_id=name) as base:
            keys.append(base.label.key)
    cache = BaseCache(place / "cache", owner=OWNER)
    entries = cache.list_entries()
    assert [entry.label.key for entry in entries] == keys
    room = entries[2].label.size_bytes
    assert [entry.label.key for entry in cache.prune(max_bytes=room)] == keys[:2]


def test_a_directory_that_is_not_a_cache_is_left_alone(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("x")
    with raises_code("cache-foreign"):
        BaseCache(place / "mine")
    assert [path.name for path in (place / "mine").iterdir()] == ["thesis.txt"]


_MAKING = """
import sys, os, json, time
sys.path[:0] = json.loads(sys.argv[2])
from pathlib import Path
from support.workspaces import build_request, OWNER
from repotrial.workspace import BaseCache
from repotrial._core.digest import digest_bytes
place = Path(sys.argv[1])
class Setup:
    digest = digest_bytes(b"slow")
    def execute(self, setup_place):
        with (place / "log").open("a") as stream: stream.write("made\\n")
        time.sleep(0.3)
        (setup_place.tree / "built").touch()
request = build_request(place, {})
print("ready", flush=True)
sys.stdin.readline()
with BaseCache(place / "cache", owner=OWNER).prepare_base(request, setup=Setup()) as base:
    assert (base.path / "built").exists()
"""


def test_many_processes_make_a_base_once(place: Path) -> None:
    build_request(place, FILES)
    paths = json.dumps([path for path in sys.path if path])
    argv = [sys.executable, "-c", _MAKING, str(place), paths]
    processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert (place / "log").read_text() == "made\n"
    assert list((place / "cache" / "making").iterdir()) == []


_DYING = """
import sys, os, json, signal
sys.path[:0] = json.loads(sys.argv[2])
from pathlib import Path
from support.workspaces import build_request, OWNER
from repotrial.workspace import BaseCache
from repotrial._core.digest import digest_bytes
class Setup:
    digest = digest_bytes(b"dies")
    def execute(self, place):
        (place.tree / "half").mkdir(mode=0o000)
        print("ready", flush=True)
        signal.pause()
place = Path(sys.argv[1])
BaseCache(place / "cache", owner=OWNER).prepare_base(build_request(place, {}), setup=Setup())
"""


def test_a_killed_process_leaves_nothing_behind_after_the_next_start(place: Path) -> None:
    build_request(place, FILES)
    paths = json.dumps([path for path in sys.path if path])
    process = subprocess.Popen([sys.executable, "-c", _DYING, str(place), paths], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    making = place / "cache" / "making"
    # While it lives, nobody takes its work away.
    BaseCache(place / "cache", owner=OWNER)
    assert len([path for path in making.iterdir() if path.is_dir()]) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (making / "not-ours").mkdir()
    BaseCache(place / "cache", owner=OWNER)
    assert [path.name for path in making.iterdir()] == ["not-ours"]
    assert list((place / "cache" / "entries").iterdir()) == []
