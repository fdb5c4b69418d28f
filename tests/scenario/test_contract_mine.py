"""`contract mine` on a small history: rows with true reasons, a page, resuming, and a person's yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial import api
from repotrial.mining import Mine, MineRow, MineSettings, mine_history, plan_mine
from repotrial.signing import SigningKey
from support.command_line import call
from support.errors import raises_code
from support.exhaustive import IS_EXHAUSTIVE
from support.harness import require_sandboxes
from support.repositories import RepositoryMaker
from support.trying import build_proving
from support.workspaces import scratch

_MESSAGE = (
    "double(3) gives 5\n\n"
    "It must give 6: twice the number that it is given, whatever that number is, and so on for all of them."
)
_TEST = "from app import double\n\n\ndef test_{name}():\n    assert double({value}) == {result}\n"


@pytest.fixture
def place() -> Iterator[Path]:
    require_sandboxes()
    with scratch() as root:
        yield root


def _make_history(place: Path) -> RepositoryMaker:
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "def double(x):\n    return x + 2\n"}, message="Start")
    fixed = _TEST.format(name="three", value=3, result=6)
    maker.commit(
        {"app.py": "def double(x):\n    return 2 * x\n", "tests/test_app.py": fixed}, message=_MESSAGE
    )
    tidy = _TEST.format(name="two", value=2, result=4)
    maker.commit(
        {"app.py": "def double(x):\n    return x * 2\n", "tests/test_tidy.py": tidy}, message="Tidy up"
    )
    return maker


def _mine(place: Path, *, is_certified: bool = False) -> list[MineRow]:
    told: list[MineRow] = []
    settings = MineSettings(
        source=str(place / "app"),
        directory=place / "mine",
        proving=build_proving(_make_place(place)),
        key=SigningKey.load(place / "key"),
        runs=place / "runs",
        limit=10,
        is_certified=is_certified,
        on_row=lambda row, _: told.append(row),
    )
    mine_history(plan_mine(settings), settings)
    if any("package-index-unreachable" in row.message for row in told):
        pytest.skip("no package index can be reached to build the pinned environment once")
    return told


def _make_place(place: Path) -> Path:
    number = len(list(place.glob("proving-*")))
    (place / f"proving-{number}").mkdir()
    return place / f"proving-{number}"


def test_a_history_becomes_rows_with_reasons_and_a_second_call_tries_nothing_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_history(place)
    rows = {row.subject: row for row in _mine(place)}
    assert (rows["double(3) gives 5"].state, rows["double(3) gives 5"].turning) == ("proved", 1)
    assert (rows["Tidy up"].state, rows["Tidy up"].reason) == ("unproved", "no-test-turns")
    assert rows["double(3) gives 5"].statement == "message"
    assert [flag for flag in rows["double(3) gives 5"].flags if flag.startswith("few-turning")]
    with (place / "mine/mine.jsonl").open("ab") as stream:
        stream.write(b'{"commit": "half a li')
    assert _mine(place) == []
    page = Path(Mine(place / "mine").summarize().page).read_text("utf-8")
    assert "no test fails before it and passes after it" in page
    _approve(place, capsys)


def _approve(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing counts without a yes, and the yes is for these words."""
    (contract,) = (place / "mine/contracts").iterdir()
    suite = place / "suite.toml"
    suite.write_text(
        f'schema = "repotrial/suite@1"\nid = "mine"\ncontracts = ["mine/contracts/{contract.name}"]\n',
        "utf-8",
    )
    with raises_code("suite-invalid") as caught:
        api.lock_suite(suite, reason=None, trusted_keys=None, is_check=False)
    told = json.dumps([str(problem) for problem in caught.value.details])
    assert "a person has approved" in told
    assert "expected a full certificate, found none" in told
    batch = place / "batch.md"
    assert call(capsys, "contract", "review", place / "mine", "--write", batch).status == 0
    text = batch.read_text("utf-8")
    assert "approve: no" in text
    assert call(capsys, "contract", "review", place / "mine", "--apply", batch, "--by", "kim").status == 0
    assert api.Mine(place / "mine").render_batch(10)[0] == 1, "no yes, so it still waits"
    batch.write_text(
        text.replace("approve: no", "approve: yes").replace("must give 6", "should give 6"), "utf-8"
    )
    ended = call(capsys, "contract", "review", place / "mine", "--apply", batch, "--by", "kim")
    assert (ended.status, ended.out.split()[0]) == (0, "approved")
    record = json.loads((contract / "mined.json").read_bytes())
    assert record["approval"]["by"] == "kim"
    assert "should give 6" in (contract / "statement.md").read_text("utf-8")
    assert api.Mine(place / "mine").render_batch(10)[0] == 0
    with raises_code("suite-invalid") as caught:
        api.lock_suite(suite, reason=None, trusted_keys=None, is_check=False)
    assert "a person has approved" not in json.dumps([str(problem) for problem in caught.value.details])


@pytest.mark.skipif(
    not IS_EXHAUSTIVE, reason="a certification takes a minute; REPOTRIAL_EXHAUSTIVE=1 tries it"
)
def test_what_is_proved_is_certified_by_a_later_call(place: Path) -> None:
    _make_history(place)
    _mine(place)
    (row,) = _mine(place, is_certified=True)
    assert row.state == "certified", row
