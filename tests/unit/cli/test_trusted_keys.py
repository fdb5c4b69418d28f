"""Trust beside status: whose seals are believed, and what that makes of a rate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repotrial.signing import SigningKey
from support.command_line import call, surroundings
from support.score_runs import write_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Iterator[Path]:
    with surroundings(XDG_CONFIG_HOME=str(tmp_path / "config")):
        yield tmp_path


def write_public(home: Path, name: str) -> tuple[SigningKey, Path]:
    key = SigningKey.load(home / f"{name}.pem")
    public = home / f"{name}-public.pem"
    public.write_text(key.public_key.pem)
    return key, public


def summarize(capsys: pytest.CaptureFixture[str], runs: Path, *words: str | Path) -> dict[str, Any]:
    whole = json.loads(call(capsys, "run", "summary", runs, "--json", *words).out)
    (agent,) = whole["agents"]
    return {**agent, "trust": whole["trust"]}


def test_keys_are_listed_added_and_removed_by_name_and_fingerprint(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = SigningKey.load(home / "config" / "repotrial" / "seal-key.pem")
    other, public = write_public(home, "other")
    assert call(capsys, "trace", "key", "add", "lab-2", public).status == 0
    listed = json.loads(call(capsys, "trace", "key", "list", "--json").out)
    assert [(key["name"], key["trust"], key["key_id"]) for key in listed] == [
        ("own", "own", own.key_id),
        ("lab-2", "listed", other.key_id),
    ]
    _, third = write_public(home, "third")
    taken = call(capsys, "trace", "key", "add", "lab-2", third)
    assert taken.status == 2
    assert "trust-file" in taken.err
    assert call(capsys, "trace", "key", "remove", "lab-2").status == 0
    assert call(capsys, "trace", "key", "remove", "lab-2").status == 2
    assert "1 key" in call(capsys, "trace", "key", "list").out


@pytest.mark.parametrize(
    "text", ["keys = 3", "[keys.x]\npublic_key = 'no key'", "[keys.'a b']\npublic_key = ''"]
)
def test_a_list_that_is_none_is_refused_and_named(
    home: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = home / "config" / "repotrial" / "trust.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    ended = call(capsys, "trace", "key", "list")
    assert ended.status == 2
    assert str(path) in ended.err


def test_a_success_counts_only_from_keys_that_are_believed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, public = write_public(home, "other")
    runs = home / "runs"
    write_run(runs / "one", run_id="one", key=key)
    before = summarize(capsys, runs)
    assert (before["success"], before["indeterminate"], before["trust"]) == (0, 1, {"unknown signer": 1})
    assert before["best_case"] == 1
    assert summarize(capsys, runs, "--key", public)["success"] == 1
    call(capsys, "trace", "key", "add", "lab-2", public)
    listed = summarize(capsys, runs)
    assert (listed["success"], listed["trust"]) == (1, {"listed": 1})
    assert "  listed  " in call(capsys, "run", "list", runs).out
    (runs / "one" / "seal.json").unlink()
    gone = summarize(capsys, runs)
    assert (gone["success"], gone["planned"], gone["trust"]) == (0, 1, {"unsealed": 1})


def test_this_machines_own_key_is_believed_and_an_edited_record_is_broken(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = SigningKey.load(home / "config" / "repotrial" / "seal-key.pem")
    runs = home / "runs"
    write_run(runs / "one", run_id="one", key=own)
    assert summarize(capsys, runs)["trust"] == {"own": 1}
    (runs / "one" / "change.patch").write_bytes(b"other")
    broken = summarize(capsys, runs)
    assert (broken["success"], broken["trust"]) == (0, {"broken": 1})
