"""What the command line takes from its surroundings, and agents that this machine can have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial.api import AgentCheck
from repotrial.cli._agent import _print_check
from repotrial.cli._machine import build_settings, find_cache
from support.command_line import call, surroundings


def test_a_relative_cache_is_the_same_wherever_a_program_is_started(tmp_path: Path) -> None:
    with surroundings(tmp_path):
        assert find_cache(Path("relc")) == tmp_path / "relc"
        assert build_settings(Path("relc")).cache == tmp_path / "relc"
    assert find_cache(None).is_absolute()


def test_a_relative_cache_serves_a_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with surroundings(tmp_path):
        assert call(capsys, "cache", "list", "--cache", "relc", "--json").out == "[]\n"


def test_an_agent_of_no_known_name_is_refused_before_anything_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "agent", "install", "pie", "--cache", tmp_path / "cache")
    assert ended.status == 2
    assert "installing" not in ended.err
    assert "fix: did you mean pi?" in ended.err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("is_installed", "words"), [(True, "can run here"), (False, "can run here once it is installed")]
)
def test_an_agent_that_is_not_installed_is_not_said_to_be_ready(
    *, is_installed: bool, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    need = {"need": "installed", "is_met": is_installed, "found": "?", "remedy": "install it"}
    found = {"name": "pi", "version": "1", "is_installed": is_installed, "can_run": True, "needs": [need]}
    _print_check(msgspec.convert(found, AgentCheck))
    assert capsys.readouterr().out.splitlines()[0] == f"pi 1: {words}"
