"""The writer dies at any moment, or is not alone: what is on disk still holds."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from repotrial._core.errors import MachineError, UsageError
from repotrial.trace import RunPaths, WriterOptions, _trace_file, _writer, iter_events
from repotrial.trace._verify_chain import Intact, Truncated, check_chain
from support.errors import raises_code
from support.traces import RUN_ID, build_invocation, open_writer, write_trace

_CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.traces import build_invocation, open_writer
from repotrial.trace import WriterOptions

writer = open_writer(Path(sys.argv[2]), options=WriterOptions(batch_bytes=int(sys.argv[3])))
print("open", flush=True)
number = 0
while True:
    body = writer.body(b"%d " % number * (2000 if number % 50 == 0 else 10))
    writer.append(build_invocation(body), actor="agent")
    number += 1
    if number % 997 == 0:
        writer.flush(durable=True)
        print(writer.head.count, flush=True)
"""


def _start(root: Path, batch_bytes: int) -> subprocess.Popen[str]:
    tests = str(Path(__file__).parents[1])
    argv = [sys.executable, "-c", _CHILD, tests, str(root), str(batch_bytes)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    return child


def _kill(child: subprocess.Popen[str]) -> list[str]:
    child.send_signal(signal.SIGKILL)
    output, _ = child.communicate()
    return output.split()


@pytest.mark.parametrize("batch_bytes", [1, 700, 64 * 1024])
def test_a_killed_writer_leaves_a_prefix_that_verifies(tmp_path: Path, batch_bytes: int) -> None:
    rng = random.Random(batch_bytes)
    for attempt in range(4):
        root = tmp_path / str(attempt)
        child = _start(root, batch_bytes)
        time.sleep(rng.uniform(0, 0.15))
        promised = _kill(child)
        report = check_chain(RunPaths(root).trace, run_id=RUN_ID)
        assert isinstance(report.status, Intact | Truncated), report
        assert report.count >= int(promised[-1] if promised else 1)
        events = list(iter_events(RunPaths(root).trace, allow_torn_tail=True))
        assert len(events) == report.count


class _Interrupt:
    """Presses Ctrl-C before one given step of the interpreter, counted within the writer's own code."""

    def __init__(self, step: int) -> None:
        self._left = step

    @property
    def has_struck(self) -> bool:
        return self._left <= 0

    def __enter__(self) -> None:
        self._outer = sys.gettrace()
        sys.settrace(self._enter_call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._outer)

    def _enter_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in {_trace_file.__file__, _writer.__file__}:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Any:
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._step


def test_an_interrupt_at_any_step_leaves_a_trace_that_verifies(tmp_path: Path) -> None:
    for step in itertools.count(1):
        root = tmp_path / str(step)
        # A batch of one byte: every append flushes the event before.
        writer = open_writer(root, options=WriterOptions(batch_bytes=1))
        writer.append(build_invocation(), actor="agent")
        interrupt = _Interrupt(step)
        with contextlib.suppress(KeyboardInterrupt), interrupt:
            writer.append(build_invocation(), actor="agent")
            writer.flush()
        writer.append(build_invocation(), actor="agent")
        writer.close()
        report = check_chain(RunPaths(root).trace, run_id=RUN_ID, expected=writer.head)
        assert isinstance(report.status, Intact), (step, report)
        assert 3 <= report.count <= 4
        if not interrupt.has_struck:
            assert step > 100
            break


def test_of_two_writers_in_threads_one_is_refused(tmp_path: Path) -> None:
    def write(_: int) -> int:
        try:
            with open_writer(tmp_path) as writer:
                for _ in range(100):
                    writer.append(build_invocation(), actor="agent")
                return writer.head.count
        except (MachineError, UsageError) as error:
            if error.code not in {"trace-locked", "trace-exists"}:
                raise
            return 0

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(write, range(4))) == [0, 0, 0, 101]
    assert check_chain(RunPaths(tmp_path).trace).count == 101


def test_every_torn_tail_is_told_apart_from_tampering(tmp_path: Path) -> None:
    write_trace(tmp_path, 6)
    path = RunPaths(tmp_path).trace
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        report = check_chain(path, run_id=RUN_ID)
        assert isinstance(report.status, Truncated) or data[length - 1 : length] == b"\n", length
        assert report.count == data[:length].count(b"\n")


def test_a_killed_writer_s_trace_is_not_continued(tmp_path: Path) -> None:
    _kill(_start(tmp_path, 700))
    before = RunPaths(tmp_path).trace.read_bytes()
    with raises_code("trace-exists"):
        open_writer(tmp_path)
    assert RunPaths(tmp_path).trace.read_bytes() == before


def test_a_writer_in_another_process_keeps_this_one_out(tmp_path: Path) -> None:
    child = _start(tmp_path, 700)
    try:
        with raises_code("trace-locked"):
            open_writer(tmp_path)
    finally:
        _kill(child)
    assert isinstance(check_chain(RunPaths(tmp_path).trace).status, Intact | Truncated)
