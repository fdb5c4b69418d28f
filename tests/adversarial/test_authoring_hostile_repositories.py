"""Repositories written by strangers: nothing of them is executed, believed or let out of its place."""

from __future__ import annotations

import tomllib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repotrial.authoring import (
    CommitContract,
    CreatedContract,
    NewContract,
    create_contract,
    create_contract_from_commit,
)
from repotrial.authoring._statement import build_statement_draft
from repotrial.authoring._template import ContractDraft, Guess, render_contract
from repotrial.contract import Check, GitRepository, Overlay, ResultFile, lint_contract, load_contract
from support.errors import raises_code
from support.repositories import RepositoryMaker

_TEST = "def test_a(): ...\n"


def _make(tmp_path: Path, files: dict[str | bytes, str | bytes] | None = None) -> RepositoryMaker:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"setup.cfg": "", "app.py": ""}, message="Start")
    maker.commit({"app.py": "a = 1\n", "tests/test_app.py": _TEST, **(files or {})})
    return maker


def _create(maker: RepositoryMaker, directory: Path) -> CreatedContract:
    return create_contract_from_commit(
        CommitContract(source=str(maker.path), directory=directory, revision="HEAD")
    )


@pytest.mark.parametrize(
    "message",
    [
        '"""\'\'\'\n\n[repository]\nsource = "/etc"\n',
        'x"\nid = "other"\n[policy]\nnetwork = "all"',
        "\\u0000 \\x1b \\",
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J\n\n\x08\x08hidden",
        "\u202egnp.exe\u202c \u2066\n\n\u200b\ufeff",
        "# comment\n\n# [[checks]]\r\nid = 1\r",
        "word " * 100_000,
        "x" * 300_000 + "\n\n" + "y" * 300_000,
        "-",
        "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n+a = 1",
    ],
    ids=["quotes", "toml", "backslash", "ansi", "bidi", "comment", "words", "long", "dash", "patch"],
)
def test_a_hostile_message_yields_a_sound_contract(tmp_path: Path, message: str) -> None:
    maker = _make(tmp_path)
    tree = maker.git("rev-parse", "HEAD^{tree}").decode().strip()
    commit = maker.git("commit-tree", "-p", "HEAD~1", tree, stdin=message.encode()).decode().strip()
    created = create_contract_from_commit(
        CommitContract(source=str(maker.path), directory=tmp_path / "contract", revision=commit)
    )
    loaded = load_contract(tmp_path / "contract")
    assert loaded.contract.policy.network == "none"
    assert [check.id for check in loaded.contract.checks] == ["tests"]
    assert isinstance(loaded.contract.repository, GitRepository)
    assert loaded.contract.repository.commit == created.base_commit
    written = loaded.statement + loaded.contract.title
    assert all(unicodedata.category(c) not in {"Cc", "Cf"} or c in "\n\t" for c in written)


def test_a_message_in_broken_encoding_is_read_all_the_same(tmp_path: Path) -> None:
    maker = _make(tmp_path)
    tree = maker.git("rev-parse", "HEAD^{tree}").decode().strip()
    message = b"\xff\xfe broken \xe2\x28\xa1\n\n\xc3"
    commit = maker.git("commit-tree", "-p", "HEAD~1", tree, stdin=message).decode().strip()
    create_contract_from_commit(
        CommitContract(source=str(maker.path), directory=tmp_path / "contract", revision=commit)
    )
    assert "broken" in load_contract(tmp_path / "contract").contract.title


@pytest.mark.parametrize(
    "name",
    [
        "$(touch x).py",
        "`id`.py",
        "a;b.py",
        "-rf",
        "a'b\"c",
        "#hash",
        "!bang",
        "sp ace ",
        "[set]*?",
        "日本.py",
        "~",
    ],
)
def test_odd_test_names_are_carried_and_protected(tmp_path: Path, name: str) -> None:
    maker = _make(tmp_path, {f"tests/{name}": _TEST, f"tests/test_{name}.py": _TEST})
    _create(maker, tmp_path / "contract")
    loaded = load_contract(tmp_path / "contract")
    assert (tmp_path / "contract/checks/tests/tests" / name).read_text() == _TEST
    assert {pin.path for pin in loaded.files} >= {f"checks/tests/tests/{name}"}
    errors = [problem.code for problem in lint_contract(loaded) if problem.severity == "error"]
    assert errors == ["empty-statement"]


@pytest.mark.parametrize("name", [b"tests/back\\slash", b"tests/new\nline", b"tests/\xff", b"tests/tab\t"])
def test_test_names_that_no_contract_can_hold_are_refused(tmp_path: Path, name: bytes) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"setup.cfg": "", "app.py": ""}, message="Start")
    maker.commit({"app.py": "a = 1\n", "tests/test_app.py": _TEST, name: "x"})
    with raises_code("test-file-unsupported"):
        _create(maker, tmp_path / "contract")
    assert not (tmp_path / "contract").exists()


def test_hooks_and_filters_of_the_repository_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    maker = _make(
        tmp_path,
        {".gitattributes": "* filter=evil diff=evil\n", "conftest.py": f"open({str(mark)!r}, 'w')"},
    )
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        script = maker.path / ".git/hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
        script.chmod(0o755)
    for key in ("filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "core.fsmonitor"):
        maker.git("config", key, f"touch '{mark}'; cat")
    create_contract(NewContract(source=str(maker.path), directory=tmp_path / "new", title="T"))
    _create(maker, tmp_path / "contract")
    assert not mark.exists()


def test_marker_files_that_are_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"scripts": {"test": "vitest"}}')
    maker = RepositoryMaker(tmp_path / "app")
    (maker.path / "package.json").symlink_to(secret)
    maker.commit({"Makefile": "test:\n"})
    create_contract(NewContract(source=str(maker.path), directory=tmp_path / "contract", title="T"))
    assert load_contract(tmp_path / "contract").contract.checks[0].run == "make test"


def test_credentials_are_not_written_into_a_contract(tmp_path: Path) -> None:
    options = NewContract(
        source="https://user:token@example.org/x.git", directory=tmp_path / "contract", title="T"
    )
    with raises_code("source-has-credentials") as caught:
        create_contract(options)
    assert "token" not in str(caught.value)
    assert not (tmp_path / "contract").exists()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80), st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_no_text_changes_the_structure_of_a_contract(message: str, origin: str, paths: list[str]) -> None:
    draft = ContractDraft(
        id="x",
        title=build_statement_draft(message).title,
        kind="bug-fix",
        ecosystem=None,
        reference=None,
        repository=GitRepository(source=origin, commit="0" * 40),
        check=Check(
            id="tests",
            gate="acceptance",
            run=message or "x",
            results=(ResultFile(format="exit-code"),),
            files=(Overlay(source="checks", target=".", delete=tuple(paths)),),
        ),
        protected=tuple(paths),
        generated=(),
        base_commit="0" * 40,
        origin=origin,
        guesses=(
            Guess(field="kind", value="", reason=message),
            Guess(field="policy.protected", value="", reason=origin),
        ),
    )
    document = tomllib.loads(render_contract(draft))
    expected = {"schema", "id", "title", "kind", "statement", "repository", "environment", "checks", "policy"}
    assert set(document) == {*expected, "scoring"}
    assert document["scoring"] == {"build_gate": "none: the tests are the only check"}
    assert len(document["checks"]) == 1
    assert document["kind"] == "bug-fix"
