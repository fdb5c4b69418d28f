"""The runner: hermetic, bounded, and clear about what went wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from repotrial.source import SourceOptions
from repotrial.source._git import execute_git, find_git, open_git, parse_git_version
from support.errors import raises_code


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def install(directory: Path, script: str, *, version: str = "2.40", seconds: int = 60) -> SourceOptions:
    """Put a program named git on a search path of its own."""
    directory.mkdir(exist_ok=True)
    program = directory / "git"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = version ]; then echo git version {version}; else {script}; fi\n'
    )
    program.chmod(0o755)
    return SourceOptions(search_path=f"{directory}:/usr/bin:/bin", git_seconds=seconds)


def test_no_git_says_how_to_get_it(tmp_path: Path) -> None:
    with raises_code("git-missing") as caught:
        find_git(SourceOptions(search_path=str(tmp_path)))
    assert "install git" in caught.value.hint


def test_a_relative_search_path_is_not_searched() -> None:
    with raises_code("git-missing"):
        find_git(SourceOptions(search_path=".:bin:"))


def test_an_old_git_is_refused(tmp_path: Path) -> None:
    with raises_code("git-too-old", match=r"2\.29"):
        find_git(install(tmp_path / "bin", ":", version="2.29.9"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("git version 2.39.5", (2, 39)),
        ("git version 2.50.1 (Apple Git-155)", (2, 50)),
        ("git version 3.0-rc1", (3, 0)),
    ],
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert parse_git_version(text) == version


def test_a_version_that_cannot_be_read_is_refused() -> None:
    with raises_code("git-too-old"):
        parse_git_version("git, a stupid content tracker")


def test_environment_of_the_user_does_not_reach_git(tmp_path: Path, home: Path) -> None:
    options = install(tmp_path / "bin", "env")
    printed = execute_git(["env"], home=home, options=options, protocols=["https"]).decode()
    variables = dict(line.partition("=")[::2] for line in printed.splitlines())
    assert set(os.environ) & set(variables) <= {"PATH", "HOME", "LC_ALL", "PWD", "_", "SHLVL", "OLDPWD"}
    assert variables["HOME"] == str(home)
    assert variables["GIT_ALLOW_PROTOCOL"] == "https"
    assert variables["GIT_TERMINAL_PROMPT"] == "0"


def test_configuration_of_the_user_has_no_effect(home: Path) -> None:
    (home / ".gitconfig").write_text("[alias]\n\tversion = !touch pwned\n[user]\n\tname = x\n")
    listing = execute_git(["config", "--list", "--show-scope"], home=home).decode()
    assert {line.split("\t")[0] for line in listing.splitlines()} == {"command"}


def test_a_failing_command_reports_in_plain_text(tmp_path: Path, home: Path) -> None:
    options = install(
        tmp_path / "bin",
        'printf "\\033[31mbad\\007\\n" >&2; exit 3',
    )
    with raises_code("git-command-failed", match="exit status 3") as caught:
        execute_git(["init"], home=home, options=options)
    assert "bad" in caught.value.message
    assert caught.value.message.isprintable()


def test_a_slow_command_is_ended_with_its_children(tmp_path: Path, home: Path) -> None:
    script = '(sleep 60; touch "$HOME/survived") & echo $! > "$HOME/child"; wait'
    note = home / "child"
    for seconds in (1, 5, 25):  # longer only where the machine is too busy to have begun
        with raises_code("git-timeout"):
            execute_git(["init"], home=home, options=install(tmp_path / "bin", script, seconds=seconds))
        if note.exists() and note.read_text().endswith("\n"):
            break
    child = int(note.read_text())
    while is_alive(child):  # a signal takes a moment to arrive; a child that is spared sleeps for a minute
        time.sleep(0.01)
    assert not (home / "survived").exists()


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_slow_conversation_is_ended(tmp_path: Path, home: Path) -> None:
    options = install(tmp_path / "bin", "sleep 60", seconds=1)
    with open_git(["cat-file"], home=home, git_dir=home, options=options) as process:
        assert process.answers.read(1) == b""
        with raises_code("git-timeout"):
            process.verify_in_time()


def test_endless_output_is_cut_off(tmp_path: Path, home: Path) -> None:
    options = install(tmp_path / "bin", "yes")
    limited = SourceOptions(search_path=options.search_path, output_bytes=100_000)
    with raises_code("git-output-limit"):
        execute_git(["diff"], home=home, options=limited)


def test_a_program_that_cannot_start_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_bytes(b"\x7fELF not a program")
    program.chmod(0o755)
    with raises_code("git-command-failed", match="start"):
        find_git(SourceOptions(search_path=str(tmp_path)))


def test_no_transport_works_unless_it_is_allowed(tmp_path: Path, home: Path) -> None:
    store = tmp_path / "store.git"
    execute_git(["init", "--quiet", "--bare", "--", str(store)], home=home)
    mark = tmp_path / "mark"
    for url in (f"ext::touch {mark}", f"file://{store}", str(store), "https://example.invalid/x"):
        with raises_code("git-command-failed", match="not allowed"):
            execute_git(["fetch", "--", url], home=home, git_dir=store)
    assert not mark.exists()
