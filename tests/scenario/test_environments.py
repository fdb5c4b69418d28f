"""Environments for real: programs of an image and of locked packages, run by bubblewrap without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.errors import MachineError
from repotrial.contract import Environment, ImageArchive, NodeEnvironment, PythonEnvironment
from repotrial.environment import HostToolchain, Store, execute_program, load_index_settings, observe_host
from repotrial.environment._images._open import open_image
from repotrial.environment._node_env import open_node_environment
from repotrial.environment._process import FinishedProgram
from repotrial.environment._python_env import open_python_environment
from support.accounts import account, public_directory
from support.images import ImageBuilder, directory, file, symlink

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/contracts/textkit-wide-chars"

_ALONE = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_FRESH = ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")


@pytest.fixture(scope="module")
def bubblewrap() -> str:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed: apt install bubblewrap")
    probe = _bubblewrap(program, "--ro-bind", "/", "/", "--", "/bin/true")
    if probe.status != 0:
        pytest.skip(f"user namespaces are not available: {probe.stderr.decode(errors='replace').strip()}")
    return program


def _bubblewrap(program: str, *arguments: str) -> FinishedProgram:
    return execute_program([program, *_ALONE, *arguments], variables={}, seconds=120, account=account())


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with public_directory() as path:
        yield path


@pytest.fixture(scope="module")
def host() -> HostToolchain:
    return observe_host(Environment(image="host", tools={"python": ">=3.11", "node": ">=16", "npm": ">=7"}))


def _host_root(*binds: str) -> list[str]:
    links = [name for name in ("bin", "sbin", "lib", "lib64") if Path("/", name).is_symlink()]
    arguments = ["--ro-bind", "/usr", "/usr", *_FRESH]
    for name in links:
        arguments += ["--symlink", str(Path("/", name).readlink()), f"/{name}"]
    return [*arguments, *binds]


# -- images ------------------------------------------------------------------------------------------------


def _members_of(program: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """A program of the host and the libraries that it loads, at their own places."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    libraries = {word for line in listing.splitlines() for word in line.split() if word.startswith("/")}
    for path in sorted({str(program), *libraries}):
        yield file(path.lstrip("/"), Path(path).read_bytes(), mode=0o755)


def test_program_runs_on_an_unpacked_image(bubblewrap: str, root: Path) -> None:
    builder = (
        ImageBuilder()
        .add_layer(*_members_of(Path("/bin/sh").resolve()), file("etc/motto", b"first\n"), file("gone"))
        .add_layer(directory("bin"), symlink("bin/sh", str(Path("/bin/sh").resolve())))
        .add_layer(file("etc/motto", b"second\n"), file(".wh.gone"))
    )
    builder.write_archive(root / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=root, store=Store(root / "store"))
    script = (
        "read line < /etc/motto; echo $line; test -e /gone || echo gone; cd /workspace && echo $PWD;"
        " test -e /usr/bin/env || echo alone; (echo x > /etc/motto) 2>/dev/null || echo read-only"
    )
    finished = _bubblewrap(
        bubblewrap, "--ro-bind", str(image.rootfs), "/", *_FRESH, "--", "/bin/sh", "-c", script
    )
    assert finished.stderr == b""
    assert finished.stdout.decode().split() == ["second", "gone", "/workspace", "alone", "read-only"]


def test_every_mount_point_of_a_sandbox_is_there(bubblewrap: str, root: Path) -> None:
    builder = ImageBuilder().add_layer(*_members_of(Path("/bin/sh").resolve()))
    builder.write_archive(root / "bare.tar")
    image = open_image(ImageArchive(path="bare.tar"), base=root, store=Store(root / "store"))
    (root / "work").mkdir()
    (root / "passwd").write_text("sandbox:x:1000:1000::/tmp:/bin/sh\n")
    shell = str(Path("/bin/sh").resolve())
    finished = _bubblewrap(
        bubblewrap,
        *("--ro-bind", str(image.rootfs), "/", *_FRESH),
        *("--ro-bind", str(root / "work"), "/workspace", "--ro-bind", str(root / "passwd"), "/etc/passwd"),
        *("--tmpfs", "/opt/repotrial", "--ro-bind", str(root / "work"), "/opt/repotrial/python"),
        *("--", shell, "-c", "read line < /etc/passwd; echo $line"),
    )
    assert (finished.stdout, finished.stderr) == (b"sandbox:x:1000:1000::/tmp:/bin/sh\n", b"")


# -- packages ----------------------------------------------------------------------------------------------


def test_pytest_of_the_example_runs_offline_from_its_lock(
    bubblewrap: str, root: Path, host: HostToolchain
) -> None:
    if "python" not in host.tools:
        pytest.skip("no Python that the sandbox's user can run")
    try:
        packages = open_python_environment(
            PythonEnvironment(lock="requirements.lock", version=">=3.11"),
            base=EXAMPLE,
            interpreter=host.tools["python"],
            store=Store(root / "store"),
            settings=load_index_settings(os.environ, home=Path.home()),
        )
    except MachineError as error:
        if error.code != "package-index-unreachable":
            raise
        pytest.skip(f"no package index: {error.message}")
    tree = shutil.copytree(EXAMPLE / "repo", root / "repo")
    suite = ["-q", "-p", "no:cacheprovider", "-o", "pythonpath=.", "tests"]
    for program in (
        [f"{packages.bind.target}/bin/python", "-m", "pytest"],
        [f"{packages.bind.target}/bin/pytest"],
    ):
        finished = _bubblewrap(
            bubblewrap,
            *_host_root("--ro-bind", str(packages.bind.source), packages.bind.target),
            *("--ro-bind", str(tree), "/workspace", "--chdir", "/workspace"),
            *("--setenv", "PATH", "/usr/bin:/bin", "--", *program, *suite),
        )
        assert b" passed" in finished.stdout, finished.stdout + finished.stderr
        assert finished.status == 0


def test_package_of_the_public_registry_runs_offline_from_its_lock(
    bubblewrap: str, root: Path, host: HostToolchain
) -> None:
    if not {"node", "npm"} <= set(host.tools):
        pytest.skip("no Node.js with npm that the sandbox's user can run")
    base = root / "node"
    base.mkdir()
    (base / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}}'
    )
    (base / "package-lock.json").write_text(
        '{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {'
        '"": {"name": "x", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}},'
        '"node_modules/is-number": {"version": "7.0.0", "integrity": '
        '"sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng=="}}}'
    )
    try:
        packages = open_node_environment(
            NodeEnvironment(lock="package-lock.json", manifest="package.json"),
            base=base,
            node=host.tools["node"],
            store=Store(root / "store"),
            settings=load_index_settings(os.environ, home=Path.home()),
        )
    except MachineError as error:
        if error.code != "package-index-unreachable":
            raise
        pytest.skip(f"no package registry: {error.message}")
    (bind,) = packages.build_binds()
    (root / "node-work").mkdir()
    (root / "node-work/node_modules").mkdir()
    finished = _bubblewrap(
        bubblewrap,
        *_host_root("--ro-bind", str(root / "node-work"), "/workspace"),
        *("--ro-bind", str(bind.source), bind.target, "--chdir", "/workspace", "--"),
        *(str(host.tools["node"].path), "-e", "console.log(require('is-number')('7'))"),
    )
    assert (finished.stdout, finished.stderr) == (b"true\n", b"")
