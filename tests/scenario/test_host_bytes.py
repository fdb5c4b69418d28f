"""The id of a host's tools: equal ids mean equal bytes, and what was read once is not read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial._core.absence import Unknown
from repotrial.contract import Environment
from repotrial.environment import observe_host
from repotrial.environment._coverage import observe_environment
from repotrial.environment._versions import build_question, find_lockfiles, parse_answers
from repotrial.trace import HostEnvironment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A tool of its own directory, as version managers install them."""
    root = tmp_path / ".local/share/mise/installs/tool/1.2.3"
    (root / "bin").mkdir(parents=True)
    (root / "lib/__pycache__").mkdir(parents=True)
    (root / "bin/tool").write_text("#!/bin/sh\necho 'tool version 1.2.3'\n")
    (root / "bin/tool").chmod(0o755)
    (root / "lib/standard.txt").write_text("one\n")
    (root / "lib/__pycache__/standard.pyc").write_bytes(b"compiled")
    return tmp_path


def observe(home: Path, **tools: str) -> HostEnvironment:
    toolchain = observe_host(Environment(image="host", tools=tools or {"tool": ">=1"}), home=home)
    assert not toolchain.problems
    found = observe_environment(toolchain, memory=home / "memory")
    assert isinstance(found, HostEnvironment)
    return found


def tool_root(home: Path) -> Path:
    return home / ".local/share/mise/installs/tool/1.2.3"


def test_the_id_says_what_it_covers_and_what_the_contract_pins(home: Path) -> None:
    found = observe(home)
    assert found.pins == "constraints"
    assert isinstance(found.covers, tuple)
    by_name = {tool.name: tool for tool in found.covers}
    assert set(by_name) == {"sh", "tool"}
    assert any(".so" in place for place in by_name["sh"].places)
    # The script's interpreter is part of it, with its libraries.
    assert str(tool_root(home)) in by_name["tool"].places
    assert set(by_name["sh"].places) - {"/bin/sh"} <= set(by_name["tool"].places)


def test_one_byte_of_a_library_is_another_id(home: Path) -> None:
    before = observe(home)
    assert observe(home) == before
    library = tool_root(home) / "lib/standard.txt"
    library.write_text("two\n")
    changed = observe(home)
    assert changed.observed_id != before.observed_id
    library.write_text("one\n")
    assert observe(home) == before


def test_a_mode_and_a_new_file_count_and_bytecode_does_not(home: Path) -> None:
    before = observe(home).observed_id
    root = tool_root(home)
    (root / "lib/__pycache__/standard.pyc").write_bytes(b"compiled again")
    assert observe(home).observed_id == before
    (root / "lib/standard.txt").chmod(0o600)
    with_mode = observe(home).observed_id
    (root / "lib/more.txt").write_text("")
    assert len({before, with_mode, observe(home).observed_id}) == 3


def test_a_change_that_keeps_size_and_time_is_seen(home: Path) -> None:
    before = observe(home).observed_id
    library = tool_root(home) / "lib/standard.txt"
    seen = library.stat()
    library.write_text("two\n")
    os.utime(library, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert observe(home).observed_id != before


def test_a_forged_note_is_read_as_none(home: Path) -> None:
    before = observe(home)
    for note in (home / "memory").iterdir():
        note.write_text("{}")
    assert observe(home) == before


def test_more_tools_are_another_id_and_other_constraints_are_not(home: Path) -> None:
    first = observe(home, bash=">=4").observed_id
    assert observe(home, bash=">=3").observed_id == first
    assert observe(home, bash=">=4", git=">=2").observed_id != first


def test_an_interpreter_is_covered_with_its_standard_library(home: Path) -> None:
    found = observe(home, python=">=3.11", git=">=2")
    assert isinstance(found.covers, tuple)
    files = {tool.name: tool.files for tool in found.covers}
    assert files["python"] > 500  # far more than a program and its libraries
    assert files["git"] > 20
    (python,) = (tool for tool in found.covers if tool.name == "python")
    assert any(
        [*Path(place).glob("os.py"), *Path(place).glob("lib/python3*/os.py")] for place in python.places
    )


def test_lock_files_of_a_tree_are_found_where_they_lie_and_not_in_packages(tmp_path: Path) -> None:
    for name in ("uv.lock", "web/package-lock.json", "web/node_modules/x/yarn.lock", ".git/poetry.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "Cargo.lock").symlink_to("/etc/passwd")
    found = find_lockfiles(tmp_path)
    assert isinstance(found, tuple)
    assert [(lock.path, lock.origin) for lock in found] == [
        ("uv.lock", "tree"),
        ("web/package-lock.json", "tree"),
    ]
    (tmp_path / "uv.lock").write_text("uv.lock!")
    changed = find_lockfiles(tmp_path)
    assert isinstance(changed, tuple)
    assert [one.digest != other.digest for one, other in zip(found, changed, strict=True)] == [True, False]


def test_tools_of_an_image_are_asked_and_never_excused() -> None:
    assert "command -v python3" in build_question()
    said = "--repotrial tool python\nPython 3.12.1\n--repotrial tool gradle\n\n--repotrial tool pip\nbroken\n"
    assert parse_answers(said) == {
        "python": "3.12.1",
        "gradle": Unknown(reason="expected a version, found: nothing"),
        "pip": Unknown(reason="expected a version, found: broken"),
    }
    assert parse_answers("") == {}
