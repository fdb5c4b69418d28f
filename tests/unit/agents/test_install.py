"""Installing agents: from a registry of the test's own, on loopback."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from repotrial.agents import (
    InstalledAgent,
    LoadedAdapter,
    _install,
    check_agent,
    find_installed,
    install_agent,
    load_adapter,
    open_agent,
)
from repotrial.agents._install import hold_agent
from repotrial.agents._model import HostRecipe, NpmRecipe
from repotrial.api import MachineSettings, ModelChoice
from repotrial.api._models import open_model_access
from repotrial.contract import Environment
from repotrial.environment import InstallationSettings, observe_host
from repotrial.machine import list_kept, prune_kept
from repotrial.policy import read_thresholds
from support.accounts import public_directory
from support.errors import raises_code
from support.harness import require_sandboxes
from support.packages import build_node_package, serve

ADAPTER = """\
schema = "repotrial/agent@1"
name = "walker"
title = "Walker"
license = "MIT"
tested_version = "1.0.0"
dialect = "openai-chat"
model = "some-model"

[install]
kind = "npm"
packages = ["walker@1.0.0"]
node = ">=16"
program = ["node_modules/walker/absent", "node_modules/walker/cli.js"]

[launch]
argv = ["{program}", "{task}"]
"""
PROGRAM = "console.log('walker', process.getuid(), process.env.HOME, process.argv.slice(2).join())\n"
SCRIPTED = {"name": "walker", "version": "2.0.0", "scripts": {"install": "echo made > made.txt"}}


def _describe(address: str, versions: dict[str, str]) -> bytes:
    listed = {
        version: {
            "name": "walker",
            "version": version,
            "hasInstallScript": True,
            "dist": {"tarball": f"{address}/walker-{version}.tgz", "integrity": integrity},
        }
        for version, integrity in versions.items()
    }
    return json.dumps({"name": "walker", "dist-tags": {"latest": "1.0.0"}, "versions": listed}).encode()


class Bench:
    """A cache, a registry and an adapter."""

    def __init__(self, root: Path, address: str) -> None:
        self.root = root
        self.settings = InstallationSettings(
            cache=root / "cache",
            home=root,
            variables={
                "PATH": os.environ["PATH"],
                "npm_config_registry": address,
                "npm_config_fetch_retries": "0",
            },
        )
        path = root / "walker.toml"
        path.write_text(ADAPTER)
        self.loaded = load_adapter(path)

    def write_script(self) -> Path:
        """Somebody who answers for a model."""
        path = self.root / "script.toml"
        path.write_text('schema = "repotrial/script@1"\n[[steps]]\nkind = "finish"\ntext = "Done."\n')
        return path

    def vary(self, **more: object) -> LoadedAdapter:
        """The adapter with another recipe."""
        recipe = msgspec.structs.replace(self.loaded.adapter.install, **more)
        return msgspec.structs.replace(
            self.loaded, adapter=msgspec.structs.replace(self.loaded.adapter, install=recipe)
        )


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    host = observe_host(Environment(image="host", tools={"node": ">=16", "npm": ">=7"}))
    if host.problems:
        pytest.skip(f"{host.problems[0].name}: found {host.problems[0].found}")
    first, first_hash = build_node_package("walker", "1.0.0", {"cli.js": PROGRAM})
    second, second_hash = build_node_package(
        "walker", "2.0.0", {"cli.js": PROGRAM, "package.json": json.dumps(SCRIPTED)}
    )
    files = {"/walker-1.0.0.tgz": first, "/walker-2.0.0.tgz": second}
    with public_directory() as root, serve(files) as address:
        files["/walker"] = _describe(address, {"1.0.0": first_hash, "2.0.0": second_hash})
        yield Bench(root, address)


def test_an_agent_is_installed_once_and_found_ever_after(bench: Bench) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: install_agent(bench.loaded, bench.settings), range(2))
    assert one == other
    assert one.tree is not None
    assert one.program == "node_modules/walker/cli.js"
    assert find_installed(bench.loaded, bench.settings) == one
    assert not any(path.stat().st_mode & 0o222 for path in one.tree.path.rglob("*"))


def test_it_is_listed_and_pruned_with_the_cache_but_not_while_it_is_held(bench: Bench) -> None:
    loaded = bench.vary(program=("node_modules/walker/cli.js",))
    installed = install_agent(loaded, bench.settings)
    cache = bench.settings.cache
    assert "agent" in {item.kind for item in list_kept(cache)}
    with hold_agent(installed, bench.settings):
        prune_kept(cache)
        assert find_installed(loaded, bench.settings) == installed
    prune_kept(cache)
    assert find_installed(loaded, bench.settings) is None


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (ModelChoice(prices=Path("nowhere.csv")), "price-book"),
        (ModelChoice(thresholds=Path("nowhere.toml")), "thresholds-invalid"),
    ],
    ids=["prices", "thresholds"],
)
def test_a_file_that_is_not_there_is_told_also_where_nobody_asks_a_model(
    bench: Bench, choice: ModelChoice, error: str
) -> None:
    machine = MachineSettings(cache=bench.settings.cache, home=bench.settings.home, variables={})
    with raises_code(error), open_model_access(choice, machine):
        pass


def test_thresholds_of_a_later_version_are_not_called_invalid(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "later.toml"
    path.write_text(read_thresholds().decode().replace("\nrules = 3 ", "\nrules = 4 "), encoding="utf-8")
    machine = MachineSettings(cache=bench.settings.cache, home=bench.settings.home, variables={})
    with raises_code("breaker-rules-unknown"), open_model_access(ModelChoice(thresholds=path), machine):
        pass


def test_an_agent_that_a_run_has_open_outlives_pruning(bench: Bench) -> None:
    cache = bench.settings.cache
    choice = ModelChoice(upstream=f"script:{bench.write_script()}")
    machine = MachineSettings(cache=cache, home=bench.settings.home, variables=bench.settings.variables)
    with open_model_access(choice, machine) as access:
        assert access is not None
        with access.open_agent(bench.loaded) as installed:
            prune_kept(cache)
            assert find_installed(bench.loaded, bench.settings) == installed
    prune_kept(cache)
    assert find_installed(bench.loaded, bench.settings) is None


def test_agents_are_installed_before_any_run_told_once_and_kept_to_the_end(bench: Bench) -> None:
    cache, told = bench.settings.cache, list[str]()
    prune_kept(cache)
    choice = ModelChoice(upstream=f"script:{bench.write_script()}")
    machine = MachineSettings(cache=cache, home=bench.settings.home, variables=bench.settings.variables)
    for _ in range(2):
        with open_model_access(choice, machine, agents=[bench.loaded], on_install=told.append):
            prune_kept(cache)
            assert find_installed(bench.loaded, bench.settings) is not None
    assert told == ["walker"]


def test_an_agent_that_cannot_be_installed_is_told_before_any_run(bench: Bench) -> None:
    missing = bench.vary(packages=("walker@3.0.0",))
    choice = ModelChoice(upstream=f"script:{bench.write_script()}")
    machine = MachineSettings(
        cache=bench.settings.cache, home=bench.settings.home, variables=bench.settings.variables
    )
    with raises_code("package-version-missing"), open_model_access(choice, machine, agents=[missing]):
        raise AssertionError("no run may begin")


def test_an_agent_that_was_pruned_before_it_could_be_held_is_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[InstalledAgent] = []

    @contextmanager
    def hold_late(installed: InstalledAgent, settings: InstallationSettings) -> Iterator[None]:
        if not rounds:
            prune_kept(settings.cache)
        rounds.append(installed)
        with hold_agent(installed, settings):
            yield

    monkeypatch.setattr(_install, "hold_agent", hold_late)
    with open_agent(bench.loaded, bench.settings) as installed:
        assert installed.tree is not None
        assert installed.tree.path.is_dir()
    assert len(rounds) == 2


def test_the_check_says_what_to_do_and_then_that_it_runs(bench: Bench) -> None:
    require_sandboxes()
    prune_kept(bench.settings.cache)
    before = check_agent(bench.loaded, bench.settings)
    assert (before.is_installed, before.can_run) == (False, True)
    assert [need.need for need in before.needs] == ["sandbox", "runtime", "installed", "index"]
    assert before.needs[2].remedy == "repotrial agent install walker"
    install_agent(bench.loaded, bench.settings)
    after = check_agent(bench.loaded, bench.settings)
    assert (after.is_installed, after.can_run) == (True, True)
    # Never root, in a home of its own.
    assert after.needs[-1].found == "walker 1000 /home/agent --version"


def test_a_version_that_the_registry_does_not_have_is_told(bench: Bench) -> None:
    missing = bench.vary(packages=("walker@3.0.0",))
    with raises_code("package-version-missing"):
        install_agent(missing, bench.settings)
    found = check_agent(missing, bench.settings)
    assert not found.can_run
    assert found.needs[-1].need == "index"
    assert found.needs[-1].remedy


def test_a_registry_that_does_not_answer_is_told(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    variables = {**bench.settings.variables, "npm_config_registry": f"http://127.0.0.1:{port}"}
    with raises_code("package-index-unreachable"):
        install_agent(
            bench.vary(packages=("walker@1.0.0",), program=("elsewhere",)),
            msgspec.structs.replace(bench.settings, variables=variables, cache=bench.root / "other"),
        )


def test_a_machine_whose_node_is_too_old_is_told(bench: Bench) -> None:
    with raises_code("host-tools-unmet", match=r"node: expected >=999"):
        install_agent(bench.vary(node=">=999"), bench.settings)
    found = check_agent(bench.vary(node=">=999"), bench.settings)
    assert (found.can_run, found.needs[-1].need) == (False, "runtime")


def test_a_program_that_is_not_in_the_package_is_told(bench: Bench) -> None:
    with raises_code("agent-program-missing", match="found none of them"):
        install_agent(bench.vary(program=("node_modules/walker/other",)), bench.settings)


def test_install_scripts_run_only_where_the_recipe_says_so(bench: Bench) -> None:
    require_sandboxes()
    program = ("node_modules/walker/cli.js",)
    without = install_agent(bench.vary(packages=("walker@2.0.0",), program=program), bench.settings)
    made = install_agent(
        bench.vary(packages=("walker@2.0.0",), program=program, scripts=True), bench.settings
    )
    assert without.tree is not None
    assert made.tree is not None
    assert not (without.tree.path / "node_modules/walker/made.txt").exists()
    assert (made.tree.path / "node_modules/walker/made.txt").read_text() == "made\n"


def test_install_scripts_cannot_touch_the_host(bench: Bench) -> None:
    require_sandboxes()
    with raises_code("install-script"):
        install_agent(bench.vary(scripts=True), bench.settings)
    assert not Path("/install-script-ran").exists()


def test_a_program_of_the_environment_needs_no_installation(bench: Bench) -> None:
    adapter = msgspec.structs.replace(bench.loaded.adapter, install=HostRecipe(program=("walker",)))
    loaded = msgspec.structs.replace(bench.loaded, adapter=adapter)
    installed = install_agent(loaded, bench.settings)
    assert (installed.program, installed.tree) == ("walker", None)
    assert find_installed(loaded, bench.settings) == installed


def test_recipes_of_another_kind_or_content_have_places_of_their_own(bench: Bench) -> None:
    assert isinstance(bench.loaded.adapter.install, NpmRecipe)
    one = install_agent(bench.loaded, bench.settings)
    other = install_agent(
        bench.vary(packages=("walker@2.0.0",), program=("node_modules/walker/cli.js",)), bench.settings
    )
    assert one.tree is not None
    assert other.tree is not None
    assert one.tree.key != other.tree.key
    assert (one.version, other.version) == ("1.0.0", "2.0.0")
