"""Edits with nothing but a shell, executed for real."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repotrial.gateway._script._plan import build_edit_command, build_read_command, build_write_command

SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=40
)


def _run(shell: str, command: str, directory: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell, "-c", command], cwd=directory, capture_output=True, check=False)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("def add(a, b):\n    return a - b\n", "    return a - b", "    return a + b", None),
        ("x\n\n\n", "x\n", 'it\'s "$HOME" `id` \\n %s\n', 'it\'s "$HOME" `id` \\n %s\n\n\n'),
        ("a*b [c] ? a*b\n", "a*b", "", " [c] ? a*b\n"),
        ("no end", "end", "end\nand more", "no end\nand more"),
        ("-n\n--\n", "--\n", "-e\n", "-n\n-e\n"),
        ("été\n", "é", "e", "eté\n"),
    ],
)
def test_an_edit_replaces_the_first_place_and_nothing_else(
    tmp_path: Path, shell: str, before: str, old: str, new: str, after: str | None
) -> None:
    file = tmp_path / "a file.py"
    file.write_text(before, encoding="utf-8")
    command = build_edit_command(str(file), old, new)
    assert "\n" not in command
    done = _run(shell, command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.read_text(encoding="utf-8") == (before.replace(old, new, 1) if after is None else after)


@pytest.mark.parametrize("shell", SHELLS)
def test_an_edit_of_a_text_that_is_not_there_fails_and_changes_nothing(tmp_path: Path, shell: str) -> None:
    file = tmp_path / "calc.py"
    file.write_text("a - b\n", encoding="utf-8")
    done = _run(shell, build_edit_command("calc.py", "c - d", "x"), tmp_path)
    assert done.returncode != 0
    assert b"not there" in done.stderr
    assert file.read_text(encoding="utf-8") == "a - b\n"
    assert _run(shell, build_edit_command("missing.py", "c", "x"), tmp_path).returncode != 0
    assert not (tmp_path / "missing.py").exists()


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=TEXT)
def test_a_file_is_written_byte_for_byte(tmp_path: Path, content: str) -> None:
    command = build_write_command("new/dir/f.txt", content)
    assert _run("sh", command, tmp_path).returncode == 0
    assert (tmp_path / "new/dir/f.txt").read_bytes() == content.encode()
    assert _run("sh", build_read_command("new/dir/f.txt"), tmp_path).stdout == content.encode()


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(head=TEXT, old=TEXT.filter(bool), new=TEXT, tail=TEXT)
def test_any_text_can_be_replaced_by_any_other(
    tmp_path: Path, head: str, old: str, new: str, tail: str
) -> None:
    file = tmp_path / "f"
    file.write_bytes((head + old + tail).encode())
    done = _run("sh", build_edit_command("f", old, new), tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.read_bytes().decode() == (head + old + tail).replace(old, new, 1)
