"""`tools/heartbeat.sh`: what is said comes through at once, and silence does not last."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

HEARTBEAT = Path(__file__).parents[3] / "tools" / "heartbeat.sh"


def pass_through(command: str, *, seconds: str) -> str:
    words = ["bash", "-c", f'{{ {command}; }} | "$0" work {seconds}', str(HEARTBEAT)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_what_is_said_is_not_changed() -> None:
    said = "one\n\n  two \\n %s\nhalf a line"
    assert pass_through(f"printf %s '{said}'", seconds="60") == said


def test_a_line_comes_through_while_the_work_goes_on() -> None:
    with subprocess.Popen(
        [str(HEARTBEAT), "work", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as beating:
        assert beating.stdin is not None
        assert beating.stdout is not None
        beating.stdin.write("one\n")
        beating.stdin.flush()
        assert beating.stdout.readline() == "one\n"
        beating.stdin.close()


def test_silence_is_broken_and_the_dots_of_a_test_runner_are_kept() -> None:
    started = time.monotonic()
    lines = pass_through("printf ..; sleep 2.5; echo end", seconds="1").splitlines()
    assert lines[0] == ".."
    assert lines[-1] == "end"
    assert lines[1:-1]
    assert all(line.startswith("  … work: at work for ") for line in lines[1:-1])
    assert len(lines) - 2 <= time.monotonic() - started
