"""Several directories in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from repotrial._core.errors import EvidenceError, ExitCode, MachineError, RepoTrialError, UsageError
from repotrial.cli._batch import BatchVerdict, work_through

_FAULTS: dict[str, RepoTrialError] = {
    "usage": UsageError("usage", "wrong", hint="right"),
    "machine": MachineError("machine", "cannot"),
    "evidence": EvidenceError("evidence", "tampered"),
}


def _act(directory: Path) -> str:
    if directory.name in _FAULTS:
        raise _FAULTS[directory.name]
    return directory.name


def _show(screen: Any, result: str) -> None:
    screen.line(f"shown {result}")


def _work(*names: str, json: bool = False, noun: str | None = "run") -> int:
    try:
        work_through(
            [Path(name) for name in names],
            _act,
            judge=lambda result: BatchVerdict(result, holds=result != "bad"),
            show=_show,
            noun=noun,
            json=json,
        )
    except typer.Exit as stop:
        return stop.exit_code
    return 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("good",), ExitCode.DONE),
        (("good", "bad"), ExitCode.DOES_NOT_HOLD),
        (("evidence", "good"), ExitCode.DOES_NOT_HOLD),
        (("usage", "bad"), ExitCode.BAD_INPUT),
        (("bad", "usage"), ExitCode.BAD_INPUT),
        (("machine", "usage", "bad", "good"), ExitCode.MACHINE_CANNOT),
    ],
)
def test_the_worst_exit_code_wins(names: tuple[str, ...], expected: ExitCode) -> None:
    assert _work(*names) == expected


def test_one_failure_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    _work("good", "usage", "bad", "good")
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "shown good",
        "shown bad",
        "shown good",
        "4 runs: 2 good, 1 could not be looked at, 1 bad",
    ]
    assert said.err.splitlines() == ["error[usage] usage: wrong", "  fix: right"]


@pytest.mark.parametrize(("names", "noun"), [(("good",), "run"), (("good", "good"), None)])
def test_no_summary_of_one_or_when_not_wanted(
    names: tuple[str, ...], noun: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    _work(*names, noun=noun)
    assert "runs" not in capsys.readouterr().out


def test_json_has_an_entry_for_every_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert _work("good", "usage", json=True) == ExitCode.BAD_INPUT
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out) == [
        "good",
        {
            "directory": "usage",
            "error": {"code": "usage", "blame": "usage", "message": "wrong", "hint": "right"},
        },
    ]
