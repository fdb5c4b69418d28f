"""Suites: what `suite lock` accepts, what it refuses, and what its id is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial._core.errors import ContractError
from repotrial._core.words import Level
from repotrial.contract import Complexity, GraphSize, SuiteLock

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "contracts"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name in ("tillbook-state", "textkit-wide-chars"):
        shutil.copytree(EXAMPLES / name, tmp_path / "c" / name)
    path = tmp_path / "suite.toml"
    _write(path, 'contracts = ["c/*"]')
    return path


def _write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(['schema = "repotrial/suite@1"', 'id = "mine"', *lines]), encoding="utf-8")


def _lock(path: Path, reason: str | None = None, *, is_check: bool = False) -> SuiteLock:
    return api.lock_suite(path, reason=reason, trusted_keys=None, is_check=is_check).lock


def _edit_check(directory: Path) -> None:
    file = directory / "contract.toml"
    file.write_text(file.read_text("utf-8").replace("timeout_seconds = ", "timeout_seconds = 1"), "utf-8")
    api.lock_contract(directory)


def test_a_sound_suite_is_locked_once_and_stays_as_it_is(suite: Path) -> None:
    first = _lock(suite)
    assert [entry.id for entry in first.contracts] == ["textkit-wide-chars", "tillbook-state"]
    assert api.lock_suite(suite, reason=None, trusted_keys=None, is_check=False).is_written is False
    assert _lock(suite, is_check=True) == first


def test_removing_a_contract_makes_a_suite_that_names_the_old_one_and_why(suite: Path) -> None:
    old = _lock(suite)
    shutil.rmtree(suite.parent / "c" / "textkit-wide-chars")
    with pytest.raises(ContractError, match="textkit-wide-chars: removed"):
        _lock(suite)
    new = _lock(suite, "its checks were flaky")
    assert new.suite_id != old.suite_id
    assert (new.lineage[-1].suite_id, new.lineage[-1].reason) == (old.suite_id, "its checks were flaky")
    assert new.lineage[-1].changes == ("textkit-wide-chars: removed",)


def test_a_changed_check_needs_a_new_certificate_before_the_suite_has_a_new_id(suite: Path) -> None:
    _lock(suite)
    _edit_check(suite.parent / "c" / "tillbook-state")
    with pytest.raises(ContractError, match="certificate of this version"):
        _lock(suite, "longer waits")


def test_all_problems_are_listed_at_once_each_with_its_fix(suite: Path) -> None:
    (suite.parent / "c" / "tillbook-state" / "contract.certificate.json").unlink()
    _write(suite, 'contracts = ["c/*", "c/till*", "nowhere"]')
    with pytest.raises(ContractError) as caught:
        _lock(suite)
    text = caught.value.message
    assert "found 3 problems" in text
    assert "c/tillbook-state in 'c/*' and in 'c/till*'" in text
    assert "found none at 'nowhere'" in text
    assert "expected a full certificate, found none (run `repotrial contract certify c/till" in text


def test_a_certificate_by_an_unknown_key_is_refused_where_keys_are_named(suite: Path, tmp_path: Path) -> None:
    key = tmp_path / "other.pem"
    key.write_text(api.show_key(tmp_path / "seal-key.pem").public_key, encoding="utf-8")
    with pytest.raises(ContractError, match="by a trusted key"):
        api.lock_suite(suite, reason=None, trusted_keys=api.load_trusted_keys([key], None), is_check=False)


def test_a_lock_edited_by_hand_is_named(suite: Path) -> None:
    _lock(suite)
    file = suite.parent / "suite.lock.json"
    file.write_text(file.read_text("utf-8").replace('"mine"', '"other"'), "utf-8")
    with pytest.raises(ContractError, match="the file was edited"):
        SuiteLock.load(suite)


def test_complexity_is_measured_beside_the_contract_and_enters_the_suite(suite: Path, tmp_path: Path) -> None:
    old = _lock(suite)
    directory = suite.parent / "c" / "tillbook-state"
    version = api.load_contract(directory).lock
    machine = api.MachineSettings(cache=tmp_path / "cache", home=tmp_path, variables={})
    key = tmp_path / "seal-key.pem"
    found = api.measure_contract(directory, machine, key_file=key, level=Level.L3, is_timed=False)
    assert found.complexity == Complexity.load(directory)
    assert found.complexity.files["python"] == 9
    assert isinstance(found.complexity.imports, GraphSize)
    assert (found.complexity.imports.nodes, found.complexity.imports.depth) == (9, 4)
    assert isinstance(found.complexity.test_us, NotComputable)
    assert api.load_contract(directory).lock == version
    assert _lock(suite, "complexity measured").suite_id != old.suite_id
