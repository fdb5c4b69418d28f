"""Node.js packages from locks; they come from a registry of the test's own, on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repotrial.contract import Environment, NodeEnvironment
from repotrial.environment import HostTool, Store, execute_program, observe_host
from repotrial.environment._node_env import NodePackages, open_node_environment
from repotrial.environment._packages import IndexSettings
from support.accounts import account, public_directory
from support.errors import raises_code
from support.packages import build_node_package, serve

DATA, INTEGRITY = build_node_package("parcel", "1.0.0", {"index.js": "module.exports = 'parcel runs'\n"})


@pytest.fixture(scope="module")
def node() -> HostTool:
    host = observe_host(Environment(image="host", tools={"node": ">=16", "npm": ">=7"}))
    if host.problems:
        pytest.skip(f"{host.problems[0].name}: found {host.problems[0].found}")
    return host.tools["node"]


class Bench:
    """A contract's directory with manifests and a lock, and a store."""

    def __init__(self, root: Path, node: HostTool, address: str) -> None:
        self.root = root
        self.node = node
        self.address = address
        self.store = Store(root / "store")
        self.settings = IndexSettings(npm={"registry": address, "fetch-retries": "0"})

    def package(self, **more: Any) -> dict[str, Any]:
        resolved = f"{self.address}/parcel.tgz"
        return {"version": "1.0.0", "resolved": resolved, "integrity": INTEGRITY, **more}

    def write(self, packages: dict[str, Any], **manifest: Any) -> Bench:
        described = {"name": "app", "version": "1.0.0", "dependencies": {"parcel": "1.0.0"}, **manifest}
        lock = {
            "name": "app",
            "lockfileVersion": 3,
            "requires": True,
            "packages": {"": described, **packages},
        }
        (self.root / "package.json").write_text(json.dumps(described))
        (self.root / "package-lock.json").write_text(json.dumps(lock))
        return self

    def open(self, *, settings: IndexSettings | None = None, **more: Any) -> NodePackages:
        return open_node_environment(
            NodeEnvironment(lock="package-lock.json", manifest="package.json", **more),
            base=self.root,
            node=self.node,
            store=self.store,
            settings=settings or self.settings,
            seconds=120,
        )


@pytest.fixture(scope="module")
def bench(node: HostTool) -> Iterator[Bench]:
    files = {"/parcel.tgz": DATA}
    with public_directory() as root, serve(files) as address:
        bench = Bench(root, node, address)
        dist = {"tarball": f"{address}/parcel.tgz", "integrity": INTEGRITY}
        versions = {
            number: {"name": "parcel", "version": number, "dist": dist} for number in ("1.0.0", "2.0.0")
        }
        files["/parcel"] = json.dumps({"name": "parcel", "versions": versions}).encode()
        yield bench


def test_packages_are_installed_and_work_as_the_sandbox_user(bench: Bench) -> None:
    packages = bench.write({"node_modules/parcel": bench.package()}).open()
    finished = execute_program(
        [str(bench.node.path), "-e", "console.log(require('parcel'))"],
        variables={},
        seconds=60,
        cwd=packages.path,
        account=account(),
    )
    assert finished.stdout == b"parcel runs\n"
    assert [bind.target for bind in packages.build_binds()] == ["/workspace/node_modules"]


def test_second_use_is_a_cache_hit_without_a_registry(bench: Bench) -> None:
    bench.write({"node_modules/parcel": bench.package()}).open()
    again = bench.open(settings=IndexSettings(npm={"registry": "http://127.0.0.1:9/"}))
    assert not again.entry.is_new


def test_tree_names_no_registry(bench: Bench) -> None:
    packages = bench.write({"node_modules/parcel": bench.package()}).open()
    files = [path for path in packages.path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"index.js", "package.json"}
    assert all(bench.address.encode() not in path.read_bytes() for path in files)


def test_install_scripts_do_not_run(bench: Bench) -> None:
    bench.write({"node_modules/parcel": bench.package(hasInstallScript=True)}, version="2.0.0").open()
    assert not Path("/install-script-ran").exists()


def test_contract_that_asks_for_install_scripts_is_told_the_way(bench: Bench) -> None:
    with raises_code("node-scripts") as caught:
        bench.open(scripts="run")
    assert "npm rebuild" in caught.value.hint


def test_other_bytes_than_in_the_lock_are_refused(bench: Bench) -> None:
    forged = "sha512-" + "A" * 86 + "=="
    with raises_code("package-hash-mismatch"):
        bench.write({"node_modules/parcel": bench.package(integrity=forged)}).open()
    assert list((bench.store.root / "node").glob(".making-*")) == []


@pytest.mark.parametrize("integrity", ["", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "md5-xyz"])
def test_package_without_a_strong_hash_is_refused(bench: Bench, integrity: str) -> None:
    with raises_code("package-hash-missing", match="node_modules/parcel"):
        bench.write({"node_modules/parcel": bench.package(integrity=integrity)}).open()


@pytest.mark.parametrize(
    "resolved", ["git+ssh://git@example.org/x.git#abc", "file:../outside", "../outside", "/etc"]
)
def test_package_from_anywhere_but_a_registry_is_refused(bench: Bench, resolved: str) -> None:
    with raises_code("package-lock-invalid"):
        bench.write({"node_modules/parcel": bench.package(resolved=resolved)}).open()
    link = {"resolved": resolved, "link": True}
    with raises_code("package-lock-invalid"):
        bench.write({"node_modules/parcel": link}).open()


def test_registry_that_does_not_answer_is_named(bench: Bench) -> None:
    with socket.socket() as listener:  # bound, not listening: refuses every connection
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        package = bench.package(resolved=f"{address}/parcel.tgz")
        with raises_code("package-index-unreachable"):
            bench.write({"node_modules/parcel": package}).open()


def test_package_for_another_platform_is_refused(bench: Bench) -> None:
    with raises_code("package-platform"):
        bench.write({"node_modules/parcel": bench.package(os=["win32"])}).open()


def test_lock_that_does_not_fit_its_manifest_is_refused(bench: Bench) -> None:
    bench.write({"node_modules/parcel": bench.package()})
    manifest = {"name": "app", "version": "1.0.0", "dependencies": {"parcel": "2.0.0"}}
    (bench.root / "package.json").write_text(json.dumps(manifest))
    with raises_code("package-lock-invalid"):
        bench.open()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"lockfileVersion": 1, "packages": {}}', "[" * 100_000])
def test_what_is_no_lock_is_named(bench: Bench, text: str) -> None:
    bench.write({})
    (bench.root / "package-lock.json").write_text(text)
    with raises_code("package-lock-invalid"):
        bench.open()


def test_missing_manifest_is_named(bench: Bench) -> None:
    bench.write({})
    (bench.root / "package.json").unlink()
    with raises_code("package-lock-invalid", match=r"package\.json"):
        bench.open()


def test_workspaces_link_to_where_the_repository_has_them(bench: Bench) -> None:
    inner = bench.root / "packages/inner/package.json"
    inner.parent.mkdir(parents=True, exist_ok=True)
    inner.write_text(json.dumps({"name": "inner", "version": "1.0.0"}))
    bench.write(
        {
            "node_modules/inner": {"resolved": "packages/inner", "link": True},
            "node_modules/parcel": bench.package(),
            "packages/inner": {"name": "inner", "version": "1.0.0"},
        },
        workspaces=["packages/*"],
    )
    packages = bench.open(workspaces=("packages/inner/package.json",))
    assert (packages.path / "node_modules/inner").readlink() == Path("../packages/inner")
    assert [bind.target for bind in packages.build_binds()] == ["/workspace/node_modules"]
    with raises_code("package-lock-invalid", match="packages/inner"):
        bench.open()


def test_lock_without_packages_is_an_empty_tree(bench: Bench) -> None:
    packages = bench.write({}, dependencies={}).open()
    assert list((packages.path / "node_modules").iterdir()) == []


def test_changed_file_is_detected(bench: Bench) -> None:
    packages = bench.write({"node_modules/parcel": bench.package()}, version="3.0.0").open()
    module = packages.path / "node_modules/parcel/index.js"
    module.chmod(0o644)
    module.write_text("module.exports = 'parcel lies'\n")
    module.chmod(0o444)
    with raises_code("store-tampered"):
        bench.open()
