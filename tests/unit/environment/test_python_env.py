"""Python environments from locks; the packages are made by the tests, so that no network is needed."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from repotrial.contract import Environment, PythonEnvironment
from repotrial.environment import (
    HostTool,
    PypiPrograms,
    Store,
    StoreKind,
    execute_program,
    list_store,
    observe_host,
    open_program_tree,
    prune_store,
)
from repotrial.environment._packages import IndexSettings
from repotrial.environment._python_env import PYTHON_TARGET, PythonPackages, open_python_environment
from support.accounts import account, public_directory
from support.errors import raises_code
from support.packages import write_wheel

CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def interpreter() -> HostTool:
    host = observe_host(Environment(image="host", tools={"python": ">=3.11"}))
    if host.problems:
        pytest.skip(f"no Python that the sandbox's user can run: {host.problems[0].found}")
    return host.tools["python"]


class Bench:
    """A contract's directory with a lock, an index beside it, and a store."""

    def __init__(self, root: Path, interpreter: HostTool) -> None:
        self.root = root
        self.interpreter = interpreter
        self.store = Store(root / "store")
        self.index = root / "index"
        self.settings = IndexSettings(pip={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)})

    def lock(self, text: str) -> Bench:
        (self.root / "requirements.lock").write_text(text)
        return self

    def open(self, *, store: Store | None = None, settings: IndexSettings | None = None) -> PythonPackages:
        return open_python_environment(
            PythonEnvironment(lock="requirements.lock"),
            base=self.root,
            interpreter=self.interpreter,
            store=store or self.store,
            settings=settings or self.settings,
            seconds=120,
        )

    def remove(self, packages: PythonPackages) -> None:
        """Forget one environment, so that it has to be built anew; the installer stays."""
        lock = packages.path.parents[1] / f"{packages.entry.record.key[7:]}.lock"
        os.utime(lock, (0, 0))
        assert prune_store(self.store, unused_seconds=3600) == [packages.entry.record.key]


@pytest.fixture(scope="module")
def bench(interpreter: HostTool) -> Iterator[Bench]:
    with public_directory() as root:
        yield Bench(root, interpreter)


@pytest.fixture(scope="module")
def built(bench: Bench) -> PythonPackages:
    lock = write_wheel(bench.index, "parcel", requires=("crate",)) + write_wheel(bench.index, "crate")
    return bench.lock(lock).open()


def test_commands_run_as_the_sandbox_user_from_any_place(built: PythonPackages, bench: Bench) -> None:
    for program in (built.path / "bin/parcel", _elsewhere(built, bench)):
        finished = execute_program(
            [str(program)], variables={"PATH": "/usr/bin:/bin"}, seconds=60, account=account()
        )
        assert (finished.stdout, finished.stderr) == (b"parcel 1.0 runs\n", b"")


def _elsewhere(built: PythonPackages, bench: Bench) -> Path:
    link = bench.root / "elsewhere"
    if not link.is_symlink():
        link.symlink_to(built.path)
    return link / "bin/parcel"


def test_tree_holds_the_locked_packages_and_nothing_else(built: PythonPackages) -> None:
    script = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"
    finished = execute_program(
        [str(built.path / "bin/python"), "-I", "-c", script], variables={}, seconds=60, account=account()
    )
    assert finished.stdout == b"['crate', 'parcel']\n"


def test_second_use_is_a_cache_hit(built: PythonPackages, bench: Bench) -> None:
    nowhere = IndexSettings(pip={"PIP_NO_INDEX": "1"})
    again = bench.open(settings=nowhere)
    assert built.entry.is_new
    assert not again.entry.is_new
    assert again.path == built.path
    assert again.bind.target == PYTHON_TARGET


def test_record_says_what_it_was_made_from_and_keeps_no_values(built: PythonPackages, bench: Bench) -> None:
    facts = built.entry.record.facts
    assert facts["machine_settings"] == ("PIP_FIND_LINKS", "PIP_NO_INDEX")
    assert facts["version"] == bench.interpreter.version
    assert str(bench.index) not in str(facts)


def test_two_builds_are_the_same_tree(built: PythonPackages, bench: Bench) -> None:
    """Byte code, scripts and package records included, at paths of another length."""
    elsewhere = bench.root / "another" / "store"
    second = bench.open(store=Store(elsewhere))
    assert second.entry.is_new
    assert second.tree_digest == built.tree_digest


def test_byte_code_is_there_and_used(built: PythonPackages) -> None:
    script = "import parcel; print(parcel.__cached__); print(parcel.main.__code__.co_filename)"
    finished = execute_program(
        [str(built.path / "bin/python"), "-c", script], variables={}, seconds=60, account=account()
    )
    cached, filename = finished.stdout.decode().splitlines()
    assert Path(cached).is_file()
    # A flag of 1: bound to the hash of the source, never compared with it.
    assert Path(cached).read_bytes()[4:8] == b"\x01\x00\x00\x00"
    assert filename.endswith("/parcel.py")


def test_package_records_fit_the_rewritten_scripts(built: PythonPackages) -> None:
    import base64

    record = next(built.path.glob("lib/python*/site-packages/parcel-1.0.dist-info/RECORD"))
    row = next(line for line in record.read_text().splitlines() if "bin/parcel" in line)
    digest = hashlib.sha256((built.path / "bin/parcel").read_bytes()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() in row


def test_nothing_in_the_tree_can_be_written(built: PythonPackages) -> None:
    writable = [
        path for path in built.path.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o222
    ]
    assert writable == []


def test_changed_file_is_detected(bench: Bench, built: PythonPackages) -> None:
    copy = bench.root / "tampered"
    subprocess.run(["cp", "-a", bench.store.root, copy], check=True)
    module = next((copy / "python").glob("sha256-*/tree/lib/python*/site-packages/parcel.py"))
    module.chmod(0o644)
    module.write_text(module.read_text().replace("runs", "lies"))
    module.chmod(0o444)
    with raises_code("store-tampered"):
        bench.open(store=Store(copy))
    assert built.path.is_dir()


# -- several processes -----------------------------------------------------------------------------------


def test_concurrent_builds_make_one(bench: Bench) -> None:
    bench.lock(write_wheel(bench.index, "shared"))
    processes = [CONTEXT.Process(target=bench.open) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 3
    assert not bench.open().entry.is_new
    assert list((bench.store.root / "python").glob(".making-*")) == []


@pytest.mark.parametrize("moment", ["tree/bin", "tree/lib/python*/site-packages/killed*"])
def test_killed_build_leaves_no_half_made_entry(bench: Bench, moment: str) -> None:
    bench.lock(write_wheel(bench.index, "killed", version=f"1.{len(moment)}"))
    before = {record.key for record in list_store(bench.store)}
    process = CONTEXT.Process(target=bench.open)
    process.start()
    deadline = time.monotonic() + 60
    while not list((bench.store.root / "python").glob(f".making-*/{moment}")):
        assert time.monotonic() < deadline
        assert process.is_alive()
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert {record.key for record in list_store(bench.store)} == before
    packages = bench.open()
    assert packages.entry.is_new
    assert list((bench.store.root / "python").glob(".making-*")) == []
    bench.remove(packages)


# -- failures with names -----------------------------------------------------------------------------------


def test_lock_without_hashes_is_refused_before_anything_runs(bench: Bench) -> None:
    with raises_code("package-hash-missing"):
        bench.lock("crate==1.0\n").open()


def test_missing_lock_is_named(bench: Bench) -> None:
    with raises_code("package-lock-invalid", match="no-such-lock"):
        open_python_environment(
            PythonEnvironment(lock="no-such-lock"),
            base=bench.root,
            interpreter=bench.interpreter,
            store=bench.store,
            settings=bench.settings,
        )


def test_other_bytes_than_in_the_lock_are_refused(bench: Bench) -> None:
    write_wheel(bench.index, "crate")
    with raises_code("package-hash-mismatch", match="crate"):
        bench.lock("crate==1.0 --hash=sha256:" + "0" * 64).open()
    assert list((bench.store.root / "python").glob(".making-*")) == []


def test_lock_that_leaves_out_a_dependency_is_refused(bench: Bench) -> None:
    with raises_code("package-lock-invalid", match="crate"):
        bench.lock(write_wheel(bench.index, "parcel", requires=("crate",))).open()


def test_package_for_another_platform_is_refused(bench: Bench) -> None:
    lock = write_wheel(bench.index, "foreign", tag="cp27-cp27m-win32")
    with raises_code("package-platform", match="foreign"):
        bench.lock(lock).open()


def test_package_for_another_python_is_refused(bench: Bench) -> None:
    metadata = "Metadata-Version: 2.1\nName: future\nVersion: 1.0\nRequires-Python: >=4\n"
    lock = write_wheel(bench.index, "future", files={"future-1.0.dist-info/METADATA": metadata})
    with raises_code("package-platform", match="future"):
        bench.lock(lock).open()


def test_index_that_does_not_answer_is_named(bench: Bench) -> None:
    with socket.socket() as listener:  # bound, not listening: refuses every connection
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/simple"
        settings = IndexSettings(pip={"PIP_INDEX_URL": address, "PIP_RETRIES": "0", "PIP_TIMEOUT": "2"})
        with raises_code("package-index-unreachable"):
            bench.lock("nowhere==1.0 --hash=sha256:" + "0" * 64).open(settings=settings)


def test_source_distributions_are_never_built(bench: Bench) -> None:
    """Building one would run its code with the harness's rights."""
    import io
    import tarfile

    mark = bench.root / "setup-ran"
    setup = f"open({str(mark)!r}, 'w')\nimport setuptools\nsetuptools.setup(name='evil')\n".encode()
    archive = bench.index / "evil-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as stream:
        info = tarfile.TarInfo("evil-1.0/setup.py")
        info.size = len(setup)
        stream.addfile(info, io.BytesIO(setup))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    with raises_code("package-platform"):
        bench.lock(f"evil==1.0 --hash=sha256:{digest}\n").open()
    assert not mark.exists()


def test_start_up_code_of_a_package_does_not_run_while_it_is_built(bench: Bench) -> None:
    mark = bench.root / "pth-ran"
    lock = write_wheel(bench.index, "hooked", files={"hooked.pth": f"import os; os.mkdir({str(mark)!r})\n"})
    packages = bench.lock(lock).open()
    assert list(packages.path.glob("lib/python*/site-packages/hooked.pth"))
    assert not mark.exists()


def test_file_with_the_path_of_its_build_is_refused(bench: Bench) -> None:
    """Nothing that an installer writes today; a new one might."""
    from repotrial.environment._python_tree import _verify_relocated

    tree = bench.root / "making" / "tree"
    tree.mkdir(parents=True)
    (tree / "script").write_text(f"#!{tree}/bin/python\n")
    with raises_code("package-build-failed", match="script"):
        _verify_relocated(tree)


def test_program_that_is_no_python_is_named(bench: Bench) -> None:
    false = HostTool(name="python", path=Path("/bin/false"), version="3", binary_digest="sha256:" + "0" * 64)
    with raises_code("package-builder-missing"):
        open_python_environment(
            PythonEnvironment(lock="requirements.lock"),
            base=bench.root,
            interpreter=false,
            store=bench.store,
            settings=bench.settings,
        )


def test_installer_is_made_once_for_all_locks(bench: Bench, built: PythonPackages) -> None:
    kinds = [record.kind for record in list_store(bench.store)]
    assert kinds.count(StoreKind.INSTALLER) == 1
    assert built.path.is_dir()


def test_programs_without_a_lock_bring_what_they_need(built: PythonPackages, bench: Bench) -> None:
    source = PypiPrograms(
        ("parcel==1.0",), interpreter=bench.interpreter, store=bench.store, lock=None, is_closed=False
    )
    source.ask_index(settings=bench.settings, seconds=120)
    found = open_program_tree(source, store=bench.store, settings=bench.settings)
    assert found.path != built.path
    assert found.entry.record.facts["resolved"] == ("crate-1.0", "parcel-1.0")


def test_programs_with_a_lock_can_do_without_what_it_leaves_out(built: PythonPackages, bench: Bench) -> None:
    assert built.path.is_dir()
    lock = write_wheel(bench.index, "roamer", requires=("nowhere",)).encode()
    programs = partial(PypiPrograms, ("roamer==1.0",), interpreter=bench.interpreter, store=bench.store)
    with raises_code("package-lock-invalid", "package-platform"):
        open_program_tree(programs(lock=lock), store=bench.store, settings=bench.settings)
    found = open_program_tree(
        programs(lock=lock, is_closed=False), store=bench.store, settings=bench.settings
    )
    assert found.entry.record.facts["resolved"] == ("roamer-1.0",)
    finished = execute_program(
        [str(found.path / "bin/roamer")], variables={"PATH": "/usr/bin:/bin"}, seconds=60, account=account()
    )
    assert finished.stdout == b"roamer 1.0 runs\n"


def test_a_version_that_no_index_has_is_told(bench: Bench) -> None:
    source = PypiPrograms(
        ("parcel==9.0",), interpreter=bench.interpreter, store=bench.store, lock=None, is_closed=True
    )
    with raises_code("package-platform"):
        source.ask_index(settings=bench.settings, seconds=120)
