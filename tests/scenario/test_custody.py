"""Runs that are archived, as the page on custody tells it: what is written there is done here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from repotrial.redaction import CustodyPolicy, Redactor, SecretRedactor
from repotrial.signing import SigningKey
from repotrial.trace import RunPaths
from support.command_line import call, surroundings
from support.custody import write_identity
from support.score_runs import FAILED, write_run

ISSUE = b"use the token ghp_" + b"c3" * 18
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "custody.md"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two sealed runs and the public key, and a home whose key sealed them."""
    key = SigningKey.load(tmp_path / "home" / "repotrial" / "seal-key.pem")
    policy = tmp_path / "custody.toml"
    policy.write_text(f'recipients = ["{write_identity(tmp_path / "reader.txt")}"]\n')
    write_run(tmp_path / "runs" / "good", key=key, redactor=_open_vault(policy, "good"), issue=ISSUE)
    _open_vault(policy, "bad")
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, key=key)
    (tmp_path / "public-key.pem").write_text(key.public_key.pem)
    return tmp_path


def _open_vault(policy: Path, run: str) -> Redactor:
    return CustodyPolicy.load(policy).open_redactor(SecretRedactor({}), run=run)


def _read_commands() -> list[list[str]]:
    lines = re.findall(r"^\$ repotrial (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return [shlex.split(line) for line in lines]


def _summarize(capsys: pytest.CaptureFixture[str]) -> object:
    ended = call(capsys, "run", "list", "runs", "--json")
    return json.loads(ended.out)


def test_the_walk_through_holds_as_it_is_written(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, str] = {}
    with surroundings(place, XDG_CONFIG_HOME=str(place / "home")):
        before = _summarize(capsys)
        for words in _read_commands():
            ended = call(capsys, *words)
            assert ended.status == 0, (words, ended)
            said[" ".join(words[:2])] = ended.out
        assert _summarize(capsys) == before
    assert set(said) >= {"archive apply", "run verify", "run summary", "report build", "run show"}
    verified = " ".join(said["run verify"].split())
    assert verified.count("tier minimal: ") == 2
    assert "approved by custodian: the study is over" in verified
    assert "cannot be shown any more: the change: its digest stays" in verified
    assert [path.read_bytes() for path in (place / "opened").iterdir()] == [ISSUE]
    assert "appeal 7" in said["archive log"]
    assert "runs/good: 1 original taken away" in said["archive shred"]
    assert (place / "report.html").stat().st_size > 1000
    assert not RunPaths(place / "runs" / "good").change.exists()


def test_exports_of_archived_runs_say_which_texts_are_gone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with surroundings(place, XDG_CONFIG_HOME=str(place / "home")):
        for words in _read_commands()[:3]:
            assert call(capsys, *words).status == 0
        ended = call(capsys, "run", "export", "atif", "runs/good", "--out", "good.json")
        assert ended.status == 0
        assert "the record keeps their digests and lengths alone" in " ".join(ended.out.split())
        document = json.loads((place / "good.json").read_bytes())
    assert document["extra"]["repotrial"]["status"] == "success"


def test_several_runs_in_a_format_of_one_need_a_directory(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with surroundings(place, XDG_CONFIG_HOME=str(place / "home")):
        ended = call(capsys, "run", "export", "atif", "runs", "--out", "one.json")
        assert (ended.status, "expected a directory for 2 files" in ended.err) == (2, True)
        assert call(capsys, "run", "export", "junit", "runs", "--out", "runs/good/junit.xml").status == 2
        assert call(capsys, "run", "export", "csv", "runs", "--out", "one").status == 2
