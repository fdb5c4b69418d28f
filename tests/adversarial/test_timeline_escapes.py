"""An agent that writes to the terminal of whoever reads its trace."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from repotrial._core.display import neutralize
from repotrial.trace import DoesNotHold, check_run, iter_timeline
from support.run_directories import RunBuilder, build_sealed_run

ATTACKS = [
    pytest.param("\x1b[2J\x1b[H all clear", id="ANSI erase and home"),
    pytest.param("\x1b]0;owned\x07", id="OSC window title"),
    pytest.param("\x1b]8;;https://example.invalid\x1b\\click\x1b]8;;\x1b\\", id="OSC hyperlink"),
    pytest.param("\x1b]52;c;ZXZpbA==\x07", id="OSC clipboard"),
    pytest.param("\x9b31m", id="C1 control sequence introducer"),
    pytest.param("ok\r\n99 harness termination  success", id="forged row by line break"),
    pytest.param("fail\rpass", id="overwriting by carriage return"),
    pytest.param("fail\b\b\b\bpass", id="overwriting by backspace"),
    pytest.param("a\u2028b\u2029c\x85d\x0be\x0cf", id="other line breaks"),
    pytest.param("\u202etxt.exe\u202c", id="right-to-left override"),
    pytest.param("\u2066a\u2069\u200f\u061c", id="bidirectional isolates and marks"),
    pytest.param("p\u200ba\u200ds\ufeffs\u2060", id="zero-width characters"),
    pytest.param("\U000e0041\U000e0042", id="invisible tags"),
    pytest.param("\x00\x7f", id="NUL and DEL"),
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_terminal_control_in_untrusted_text_is_shown_not_obeyed(tmp_path: Path, attack: str) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.tool(arguments=attack)
    builder.alert(text=attack)
    for row in list(iter_timeline(builder.finish()))[1:]:
        assert row.summary.isprintable()
        assert not any(unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"} for c in row.summary)
        assert "\\" in row.summary


def test_endless_text_does_not_fill_the_screen() -> None:
    assert len(neutralize("\x1b" * 1_000_000, max_characters=200)) == 200
    assert len(neutralize("a" * 1_000_000, max_characters=200)) == 200


@pytest.mark.parametrize("attack", ATTACKS)
def test_terminal_control_in_file_names_does_not_reach_the_report(tmp_path: Path, attack: str) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    name = attack.replace("/", "|").replace("\x00", "")
    (paths.acceptance / name).mkdir()
    (paths.acceptance / name / name).write_text("")
    verification = check_run(paths, trusted_keys=None)
    for verdict in (verification.seal, verification.completeness):
        assert isinstance(verdict, DoesNotHold)
        assert all(finding.text.isprintable() for finding in verdict.findings)
