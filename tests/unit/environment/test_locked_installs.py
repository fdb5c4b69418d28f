"""A lock is installed as it is, with the pip that each supported Python ships, whatever the index has by now.

The reason not to resolve: pip before 23.3 takes the newest release for `name[extra]`, finds that the lock
pins another one, and refuses. A lock that worked for months then fails because of a new release.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.contract import PythonEnvironment
from repotrial.environment import HostTool, PypiPrograms, Store, open_program_tree
from repotrial.environment._packages import IndexSettings
from repotrial.environment._python_env import open_python_environment
from support.accounts import public_directory
from support.errors import raises_code
from support.interpreters import CLAIMED, ROOT, require_interpreter
from support.packages import write_wheel

INSTALL = ROOT / "tools/install_lock.sh"
FIRST_GOOD_PIP = (23, 3)
LOCKED = {"gauge 1.0", "probe 1.0", "meter 1.0"}


class Machine:
    """One Python, an index and a store."""

    def __init__(self, root: Path, interpreter: HostTool) -> None:
        self.root = root
        self.interpreter = interpreter
        self.index = root / "index"
        self.store = Store(root / "store")
        self.settings = IndexSettings(pip={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)})
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            **self.settings.pip,
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self.lock = root / "requirements.lock"
        self.venv = root / "venv"

    def publish(self) -> dict[str, str]:
        """`probe` needs `gauge[toml]`, which needs `meter`; newer releases lie beside the locked ones."""
        lines = {}
        for version in ("2.0", "1.0"):
            lines["gauge"] = self.write_gauge(version)
            lines["meter"] = write_wheel(self.index, "meter", version=version)
            lines["probe"] = write_wheel(
                self.index,
                "probe",
                version=version,
                requires=("gauge[TOML]>=1.0", "absent ; extra == 'more'"),
            )
        return lines

    def write_gauge(self, version: str) -> str:
        metadata = (
            f"Metadata-Version: 2.1\nName: gauge\nVersion: {version}\nProvides-Extra: toml\n"
            "Requires-Dist: meter>=1.0 ; extra == 'toml'\n"
        )
        files = {f"gauge-{version}.dist-info/METADATA": metadata}
        return write_wheel(self.index, "gauge", version=version, files=files)

    def open(self, *lines: str) -> Path:
        self.lock.write_text("".join(lines))
        environment = PythonEnvironment(lock=self.lock.name)
        return open_python_environment(
            environment,
            base=self.root,
            interpreter=self.interpreter,
            store=self.store,
            settings=self.settings,
            seconds=120,
        ).path

    def make_venv(self) -> None:
        subprocess.run(
            [self.interpreter.path, "-m", "venv", "--clear", self.venv], check=True, env=self.variables
        )

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env=self.variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=CLAIMED)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    interpreter = require_interpreter(request.param)
    with public_directory() as root:
        yield Machine(root, interpreter)


@pytest.fixture(scope="module")
def any_machine() -> Iterator[Machine]:
    with public_directory() as root:
        yield Machine(root, require_interpreter(f"{sys.version_info.major}.{sys.version_info.minor}"))


def _list_installed(tree: Path) -> set[str]:
    found = tree.glob("lib/python*/site-packages/*.dist-info")
    names = {path.name.removesuffix(".dist-info").replace("-", " ") for path in found}
    return {name for name in names if not name.startswith(("pip ", "setuptools "))}


def test_contracts_and_agents_get_what_is_locked_though_newer_releases_are_there(machine: Machine) -> None:
    lines = machine.publish()
    assert _list_installed(machine.open(*lines.values())) == LOCKED
    programs = PypiPrograms(
        ("probe==1.0",),
        interpreter=machine.interpreter,
        store=machine.store,
        lock="".join(lines.values()).encode(),
    )
    tree = open_program_tree(programs, store=machine.store, settings=machine.settings)
    assert _list_installed(tree.path) == LOCKED


def test_a_lock_that_leaves_out_the_dependency_of_an_extra_is_refused(any_machine: Machine) -> None:
    lines = any_machine.publish()
    with raises_code("package-lock-invalid", match=re.escape("no meter>=1.0 (for gauge 1.0)")):
        any_machine.open(lines["probe"], lines["gauge"])
    # Without the extra, the same package is complete; what an extra of `probe` needs was not asked for.
    assert _list_installed(any_machine.open(lines["gauge"])) == {"gauge 1.0"}
    with raises_code("package-lock-invalid", match="meter"):
        any_machine.open(lines["gauge"].replace("gauge==", "gauge[toml]=="))


def test_a_lock_with_a_release_that_does_not_fit_is_refused(any_machine: Machine) -> None:
    late = write_wheel(any_machine.index, "late", requires=("meter>=2.0",))
    with raises_code("package-lock-invalid", match=re.escape("no meter>=2.0 (for late 1.0) but 1.0")):
        any_machine.open(late, any_machine.publish()["meter"])


def test_packages_that_need_each_other_are_complete(any_machine: Machine) -> None:
    lines = [write_wheel(any_machine.index, "hen", requires=("egg",))]
    lines += [
        write_wheel(
            any_machine.index, "egg", requires=("hen ; python_version >= '3'", "dodo ; python_version < '3'")
        )
    ]
    assert _list_installed(any_machine.open(*lines)) == {"hen 1.0", "egg 1.0"}


def test_setup_installs_what_is_locked_and_an_old_pip_that_resolves_does_not(machine: Machine) -> None:
    lines = machine.publish()
    machine.make_venv()
    machine.lock.write_text(lines["probe"])
    refused = machine.run(INSTALL, machine.venv, machine.lock)
    assert refused.returncode == 1
    assert "probe 1.0 requires gauge" in refused.stderr
    machine.lock.write_text("".join(lines.values()))
    pip = machine.venv / "bin/pip"
    version = re.findall(r"\d+", machine.run(pip, "--version").stdout)
    resolved = machine.run(pip, "install", "--dry-run", "--require-hashes", "-r", machine.lock)
    if tuple(map(int, version[:2])) < FIRST_GOOD_PIP:
        assert resolved.returncode != 0
        assert "In --require-hashes mode" in resolved.stdout + resolved.stderr
    else:
        assert resolved.returncode == 0, resolved.stderr
    done = machine.run(INSTALL, machine.venv, machine.lock)
    assert (done.returncode, done.stderr) == (0, "")
    assert _list_installed(machine.venv) == LOCKED
