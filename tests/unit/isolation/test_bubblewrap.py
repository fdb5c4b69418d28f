from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from repotrial._core.words import Level
from repotrial.isolation import (
    Bind,
    Capabilities,
    CgroupSite,
    DirectoryRoot,
    HostRoot,
    OverlayMount,
    ResourceLimits,
    SandboxSpec,
)
from repotrial.isolation._levels._bubblewrap import Engine, build_order

WORKSPACE = Path("/somewhere/tree")
CAPABILITIES = Capabilities(
    level=Level.L3,
    network="namespace",
    has_overlay=True,
    has_stages=True,
    syscall_audit="notify",
    memory_limit="polled",
    cpu_meter="sampled",
    disk_limit="polled",
    freezer="signals",
    has_images=True,
)


def plan(
    spec: SandboxSpec,
    *,
    version: tuple[int, ...] = (0, 8, 0),
    is_staged: bool = True,
    shared_tree: Literal["overlay", "bind"] = "bind",
) -> dict[str, Any]:
    engine = Engine(
        capabilities=msgspec.structs.replace(CAPABILITIES, shared_tree=shared_tree),
        bubblewrap="/usr/bin/bwrap",
        version=version,
        is_staged=is_staged,
        site=CgroupSite(homes={}),
    )
    return {**build_order(spec, engine)}


def joined(built: dict[str, Any]) -> str:
    return " ".join(built["arguments"])


@pytest.fixture
def image(tmp_path: Path) -> Path:
    for name in ("usr/bin", "etc", "opt/tool", "proc", "dev", "tmp", "sys", "workspace", "var"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("passwd", "group", "profile"):
        (tmp_path / "etc" / name).touch()
    (tmp_path / "bin").symlink_to("usr/bin")
    return tmp_path


def test_every_namespace_is_asked_for_and_a_user_namespace_is_insisted_on() -> None:
    text = joined(plan(SandboxSpec(workspace=WORKSPACE)))
    assert text.startswith("--unshare-all --unshare-user ")
    for option in ("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop ALL", "--as-pid-1"):
        assert option in text


def test_older_versions_are_not_asked_for_what_they_do_not_know() -> None:
    assert "--disable-userns" not in plan(SandboxSpec(workspace=WORKSPACE), version=(0, 7, 0))["arguments"]


def test_every_scratch_space_has_a_size_and_everything_else_is_read_only() -> None:
    spec = SandboxSpec(workspace=WORKSPACE, limits=ResourceLimits(tmp_mb=3))
    arguments = plan(spec)["arguments"]
    places = [index for index, word in enumerate(arguments) if word == "--tmpfs"]
    assert [arguments[index + 1] for index in places] == ["/dev/shm", "/tmp", "/var/tmp", "/run"]
    assert all(arguments[index - 2] == "--size" for index in places)
    assert "--size 3145728 --tmpfs /tmp" in joined(plan(spec))
    assert "--remount-ro / " in joined(plan(spec))
    assert "--remount-ro /dev" in joined(plan(spec, is_staged=False))


def test_the_host_shows_programs_and_little_else() -> None:
    arguments = plan(SandboxSpec(workspace=WORKSPACE))["arguments"]
    shown = {
        arguments[index + 2] for index, word in enumerate(arguments) if word in {"--ro-bind", "--symlink"}
    }
    assert "/usr" in shown
    assert not shown & {"/", "/etc", "/home", "/root", "/var", "/etc/passwd", "/etc/shadow", "/sys", "/run"}


def test_nothing_of_the_host_stands_in_the_arguments_when_staged() -> None:
    spec = SandboxSpec(
        workspace=WORKSPACE,
        root=HostRoot(tool_roots=(Path("/private/tools"),)),
        binds=(Bind(source=Path("/private/results"), target="/results", is_writable=True),),
    )
    built = plan(spec)
    assert "/somewhere" not in joined(built)
    assert [tree["path"] for tree in built["trees"]] == [
        "/private/results",
        "/private/tools",
        "/somewhere/tree",
    ]
    assert "--ro-bind /sys/1 /private/tools" in joined(built)
    assert "--bind /sys/0 /results" in joined(built)
    assert "--bind /sys/2 /workspace" in joined(built)


def test_without_staging_paths_are_bound_as_they_are() -> None:
    built = plan(SandboxSpec(workspace=WORKSPACE), is_staged=False)
    assert built["trees"] == []
    assert "--bind /somewhere/tree /workspace" in joined(built)


def test_the_read_stage_begins_read_only() -> None:
    assert "--ro-bind /sys/0 /workspace" in joined(plan(SandboxSpec(workspace=WORKSPACE, stage="read")))


def test_an_overlay_is_mounted_from_its_own_trees() -> None:
    overlay = OverlayMount(
        lower=Path("/cache/base,1"), upper=Path("/run:s/upper"), work=Path("/run:s/work"), target=Path("/x")
    )
    built = plan(SandboxSpec(workspace=WORKSPACE, overlay=overlay))
    assert [tree["path"] for tree in built["trees"]] == ["/cache/base,1", "/run:s"]
    assert built["overlays"] == [{"name": "workspace", "lower": "0", "upper": "1/upper", "work": "1/work"}]
    assert "--bind /sys/workspace /workspace" in joined(built)


def test_what_the_host_writes_later_is_shown_as_it_is_and_not_through_an_overlay(tmp_path: Path) -> None:
    binds = (
        Bind(source=tmp_path, target="/tools"),
        Bind(source=tmp_path, target="/answers", is_live=True),
    )
    text = joined(plan(SandboxSpec(workspace=WORKSPACE, binds=binds), shared_tree="overlay"))
    assert re.search(r"--ro-bind /sys/own-\d+ /tools", text)
    assert re.search(r"--ro-bind /sys/\d+ /answers", text)


def test_an_image_is_shown_by_its_entries_without_what_a_sandbox_has_itself(image: Path) -> None:
    text = joined(plan(SandboxSpec(workspace=WORKSPACE, root=DirectoryRoot(path=image))))
    assert "--ro-bind /sys/0/usr /usr" in text
    assert "--symlink usr/bin /bin" in text
    assert "--ro-bind /sys/0/etc /etc" in text
    for name in ("proc", "dev", "tmp", "sys", "workspace"):
        assert f"/sys/0/{name} " not in text


def test_a_mount_point_that_an_image_lacks_is_made_beside_its_entries(image: Path) -> None:
    bind = Bind(source=Path("/results"), target="/opt/env/deep")
    text = joined(plan(SandboxSpec(workspace=WORKSPACE, root=DirectoryRoot(path=image), binds=(bind,))))
    assert "--dir /opt --ro-bind /sys/0/opt/tool /opt/tool" in text
    assert "--ro-bind /sys/0/opt /opt" not in text


def test_outer_binds_come_before_inner_ones() -> None:
    binds = tuple(Bind(source=Path("/s"), target=target) for target in ("/a/b/c", "/a", "/a/b"))
    arguments = plan(SandboxSpec(workspace=WORKSPACE, binds=binds))["arguments"]
    assert [word for word in arguments if word.startswith("/a")] == ["/a", "/a/b", "/a/b/c"]


def test_accounts_are_made_up() -> None:
    built = plan(SandboxSpec(workspace=WORKSPACE))
    assert any("sandbox:x:1000:1000" in content for content in built["files"])
    assert built["arguments"].count("--file") == len(built["files"])
