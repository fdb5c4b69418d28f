"""The ceiling of a command is derived again from the programs on record (P19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.policy import Recomputed, recompute_ceilings
from repotrial.trace import (
    EndCommand,
    EventRef,
    Intervention,
    MonitorAlert,
    OnAlert,
    ProgramEnd,
    ProgramStart,
    Signal,
    Signaled,
    iter_events,
)
from support.run_directories import RunBuilder

_CEILING_US = 3_000_000


class _Record:
    """A command that lasted so long, and what was done about it."""

    def __init__(self, root: Path, *, lasted_us: int) -> None:
        self.builder = RunBuilder(root)
        self.builder.enter("act")
        now = next(iter_events(self.builder.paths.trace)).t
        start = ProgramStart(
            witness=0, phase="act", number=5, parent=1, command=5, argv=("sleep",), path="sleep", exe=None,
            cwd="/", pid=7, started_at_us=now - lasted_us, confirmed=True,
        )  # fmt: skip
        ref = self.builder.writer.append(start, actor="agent")
        assert isinstance(ref, EventRef)
        self.seq = ref.seq
        self._ended_at_us = now

    def alert(self, *, wall_us: int = _CEILING_US, threshold: int = _CEILING_US) -> int:
        signal = Signal(name="command_wall_us", value=wall_us, threshold=threshold)
        alert = MonitorAlert(
            monitor="commands", rule="command-ceiling", severity="warning", phase="act", signals=(signal,),
            evidence=(self.seq,),
        )  # fmt: skip
        return self.builder.add(alert).seq

    def end(self, alert: int) -> None:
        action = EndCommand(command=5, processes=1)
        self.builder.add(Intervention(action=action, basis=OnAlert(alert=alert), effective=True))

    def judge(self) -> tuple[Recomputed, ...]:
        ended = ProgramEnd(
            witness=0, number=5, exit=Signaled(signal=9), ended_at_us=self._ended_at_us, wall_us=1
        )
        self.builder.writer.append(ended, actor="agent")
        self.builder.writer.close()
        return recompute_ceilings(iter_events(self.builder.paths.trace), _CEILING_US)


def test_an_alert_at_the_ceiling_and_what_it_led_to_agree(tmp_path: Path) -> None:
    record = _Record(tmp_path / "run", lasted_us=3_100_000)
    record.end(record.alert())
    (found,) = record.judge()
    assert (found.status, found.is_agreed) == ("agrees", True)
    assert found.decision is not None
    assert found.decision.signals[0].threshold == _CEILING_US


@pytest.mark.parametrize(
    ("lasted_us", "wall_us", "threshold"),
    [
        (3_100_000, 2_000_000, _CEILING_US),
        (3_100_000, _CEILING_US, 1_000_000),
        (1_000_000, _CEILING_US, _CEILING_US),
    ],
)
def test_an_alert_that_the_programs_do_not_bear_out_is_one_too_many(
    lasted_us: int, wall_us: int, threshold: int, tmp_path: Path
) -> None:
    record = _Record(tmp_path / "run", lasted_us=lasted_us)
    record.end(record.alert(wall_us=wall_us, threshold=threshold))
    assert [found.status for found in record.judge()] == ["alert-extra"]


def test_an_alert_that_ended_nothing_is_named(tmp_path: Path) -> None:
    record = _Record(tmp_path / "run", lasted_us=3_100_000)
    record.alert()
    assert [found.status for found in record.judge()] == ["intervention-missing"]


def test_a_command_far_beyond_its_ceiling_without_an_alert_is_named(tmp_path: Path) -> None:
    (found,) = _Record(tmp_path / "run", lasted_us=90_000_000).judge()
    assert (found.status, found.rule) == ("alert-missing", "command-ceiling")


def test_a_command_below_its_ceiling_is_left_alone(tmp_path: Path) -> None:
    assert _Record(tmp_path / "run", lasted_us=2_000_000).judge() == ()
