"""From an adapter to a command line: for every agent that is shipped, and against hostile values."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest

from repotrial.agents import InstalledAgent, LoadedAdapter, find_adapter, list_adapters
from repotrial.agents._install import InstalledTree
from repotrial.agents._launch import (
    AGENT_HOME,
    AGENT_PREFIX,
    Launch,
    LaunchOrder,
    build_launch,
    fill_home,
)
from repotrial.environment import HostTool
from repotrial.isolation import Bind
from support.errors import raises_code

DIGEST = "sha256:" + "0" * 64
ORDER = LaunchOrder(
    url="http://127.0.0.1:4000/",
    key="run-key-0123",
    model="vendor/model-1.5",
    task="Fix it.\nSay {key} and $HOME.",
    search_path="/opt/repotrial/python/bin:/usr/bin:/it's here",
)
SHIPPED = list_adapters()


def pretend(loaded: LoadedAdapter, *, root: Path | None = None) -> InstalledAgent:
    """An agent as if it were installed."""
    name = "python" if hasattr(loaded.adapter.install, "requirements") else "node"
    tool = HostTool(name=name, path=Path("/usr/bin/env"), version="20.1", binary_digest=DIGEST, root=root)
    has_runtime = getattr(loaded.adapter.install, "has_node", True)
    return InstalledAgent(
        name=loaded.adapter.name,
        version=loaded.version,
        program=loaded.adapter.install.program[0],
        tree=InstalledTree(
            path=Path("/store/tree"),
            key=DIGEST,
            tree_digest=DIGEST,
            size_bytes=1,
            runtime=tool if has_runtime else None,
        ),
    )


def launch(name: str, order: LaunchOrder = ORDER, *, root: Path | None = None) -> Launch:
    loaded = find_adapter(name)
    return build_launch(loaded.adapter, pretend(loaded, root=root), order)


@pytest.mark.parametrize("loaded", SHIPPED, ids=lambda loaded: loaded.adapter.name)
def test_every_shipped_agent_gets_its_task_its_key_and_the_gateway(loaded: LoadedAdapter) -> None:
    made = launch(loaded.adapter.name)
    told = [*made.argv, *made.variables.values(), *(word for argv in made.prepare for word in argv)]
    whole = "\n".join([*told, *(data.decode() for data in made.files.values())])
    assert ORDER.task in made.argv
    assert ORDER.key in whole
    assert "http://127.0.0.1:4000" in whole
    assert "http://127.0.0.1:4000//" not in whole
    assert ORDER.model in whole
    assert not re.findall(r"\{(?:url|model|home|prefix|program|retries|turns|task)\}", whole)
    assert all(argv[0].startswith("/") for argv in (made.argv, made.probe, *made.prepare))


@pytest.mark.parametrize("loaded", SHIPPED, ids=lambda loaded: loaded.adapter.name)
def test_configuration_files_of_shipped_agents_are_sound_when_filled_in(loaded: LoadedAdapter) -> None:
    for name, data in launch(loaded.adapter.name).files.items():
        if name.endswith(".json"):
            json.loads(data)
        elif name.endswith(".toml"):
            tomllib.loads(data.decode())


def test_a_placeholder_in_the_task_is_not_filled_in() -> None:
    made = launch("codex")
    assert "Say {key}" in made.argv[-1]
    assert ORDER.key not in made.argv[-1]


@pytest.mark.parametrize("model", ['x"\nmalicious = "1', "a b", "", "-x", "x" * 300, "é"])
def test_a_model_name_that_could_break_out_of_a_file_is_refused(model: str) -> None:
    with raises_code("model-name", match="model: expected a plain name"):
        launch("codex", msgspec.structs.replace(ORDER, model=model))


def test_a_task_too_long_for_a_command_line_is_read_from_its_file() -> None:
    task = "word " * 50_000
    made = launch("claude-code", msgspec.structs.replace(ORDER, task=task))
    assert max(map(len, made.argv)) < 1000
    assert any(f"{AGENT_HOME}/.repotrial/task.md" in word for word in made.argv)
    assert made.files[".repotrial/task.md"] == task.encode()


def test_a_task_that_begins_like_an_option_is_none() -> None:
    made = launch("codex", msgspec.structs.replace(ORDER, task="--help me"))
    assert made.argv[-1] == "\n--help me"
    assert made.files[".repotrial/task.md"] == b"--help me"


def test_turns_are_told_to_agents_that_can_be_told() -> None:
    order = msgspec.structs.replace(ORDER, turns=7)
    assert launch("claude-code", order).argv[-2:] == ("--max-turns", "7")
    assert launch("codex", order).argv == launch("codex").argv


def test_a_script_is_started_by_its_interpreter_and_a_program_by_itself() -> None:
    assert launch("codex").argv[1].startswith(f"{AGENT_PREFIX}/node_modules/")
    assert launch("claude-code").argv[0].startswith(f"{AGENT_PREFIX}/node_modules/")
    assert launch("mini-swe-agent").argv[0] == f"{AGENT_PREFIX}/bin/mini"


def test_an_interpreter_outside_the_system_is_shown_too() -> None:
    root = Path("/home/somebody/.nvm/versions/node/v20.1.0")
    assert Bind(source=root, target=str(root)) in launch("codex", root=root).binds
    assert not any(bind.is_writable for bind in launch("codex", root=root).binds)


def test_login_shells_keep_the_search_path(tmp_path: Path) -> None:
    bind = fill_home(tmp_path, launch("goose").files, owner=None)
    finished = subprocess.run(
        ["/bin/bash", "-lc", 'printf %s "$PATH"'],
        env={"HOME": str(bind.source), "PATH": "/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert finished.stdout == ORDER.search_path


@pytest.mark.parametrize("name", ["user.name", "user.email", "safe.directory"])
def test_git_is_told_who_works_without_a_word_in_the_workspace(tmp_path: Path, name: str) -> None:
    finished = subprocess.run(
        ["git", "config", "--get", name],
        env={**launch("aider").variables, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    )
    assert finished.stdout.strip()


def test_a_home_is_the_agents_alone_and_never_shared(tmp_path: Path) -> None:
    bind = fill_home(tmp_path, {"a/b/c.txt": b"text"}, owner=None)
    assert (bind.target, bind.is_writable) == (AGENT_HOME, True)
    assert (bind.source / "a/b/c.txt").read_bytes() == b"text"
    for path in (bind.source, *bind.source.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    with pytest.raises(FileExistsError):
        fill_home(tmp_path, {}, owner=None)
