"""Attacks on the ledger of budgets: edited, cut, replaced, torn, killed while it was written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial.cost import Exhausted, Ledger
from repotrial.cost._ledger import LedgerHold
from repotrial.cost._ledger_file import LedgerFile, _link
from support.costs import build_cost
from support.errors import raises_code


def _reserve(
    *, envelope: str = "total", amount: str = "1", unit: str = "usd", holder: str = "0" * 32
) -> bytes:
    entry = {"kind": "reserved", "at_us": 1, "run": "r", "envelopes": [envelope], "amount": amount}
    return json.dumps({**entry, "unit": unit, "holder": holder}).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with each kind of entry."""
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.open_envelope("total", build_cost(10))
        for amount in (4, 3):
            hold = ledger.reserve(build_cost(amount), run="r1", envelopes=["total"])
            assert isinstance(hold, LedgerHold)
            if amount == 4:
                hold.settle(build_cost(1))
            else:
                hold.release()
        ledger.reserve(build_cost(2), run="r2", envelopes=["total"])
    return path


def _forge(path: Path, *bodies: bytes) -> None:
    """Append well-chained lines, as someone who has read our source can."""
    previous, number = bytes(32), 0
    for line in path.read_bytes().splitlines():
        previous, number = bytes.fromhex(line[-66:-2].decode()), number + 1
    with path.open("ab") as stream:
        for body in bodies:
            previous = _link(previous, number, body)
            number += 1
            stream.write(b'{"entry":' + body + b',"hash":"' + previous.hex().encode() + b'"}\n')


def test_any_changed_byte_of_a_full_line_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    for place in range(0, len(data) - 1, 7):
        changed = bytes([data[place] ^ 1])
        path.write_bytes(data[:place] + changed + data[place + 1 :])
        with raises_code("ledger-broken"):
            Ledger(path)


def test_a_removed_doubled_or_swapped_line_is_noticed(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for edited in (
        [*lines[:2], *lines[3:]],
        [*lines, lines[-1]],
        [*lines[:2], lines[3], lines[2], *lines[4:]],
        lines[1:],
    ):
        path.write_bytes(b"".join(edited))
        with raises_code("ledger-broken"):
            Ledger(path)


def test_lines_cut_off_the_end_are_noticed_by_whoever_kept_the_head(path: Path) -> None:
    with Ledger(path) as ledger:
        head = ledger.read().head
        ledger.verify(head)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with Ledger(path) as ledger, raises_code("ledger-broken", match=f"entry {head.count}"):
        ledger.verify(head)


def test_a_ledger_that_has_grown_still_has_its_earlier_head(path: Path) -> None:
    with Ledger(path) as ledger:
        heads = [ledger.read().head]
        ledger.conclude_run("r2")
        heads.append(ledger.read().head)
        for head in heads:
            ledger.verify(head)


def test_cutting_or_replacing_the_file_under_an_open_ledger_is_noticed(path: Path) -> None:
    with Ledger(path) as ledger:
        data = path.read_bytes()
        os.truncate(path, len(data) - 100)
        with raises_code("ledger-broken", match="bytes or more"):
            ledger.reserve(build_cost(1), run="r3", envelopes=["total"])
        path.write_bytes(data)
        ledger.read()
        path.rename(path.with_name("aside"))
        path.write_bytes(data)
        with raises_code("ledger-broken", match="another in its place"):
            ledger.reserve(build_cost(1), run="r3", envelopes=["total"])
        path.unlink()
        with raises_code("ledger-unusable"):
            ledger.reserve(build_cost(1), run="r3", envelopes=["total"])


def test_an_edit_under_an_open_ledger_is_noticed_when_it_is_verified(path: Path) -> None:
    with Ledger(path) as ledger:
        data = path.read_bytes()
        path.write_bytes(data.replace(b'"limit":"10"', b'"limit":"99"'))
        with raises_code("ledger-broken"):
            ledger.verify()


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"not json",
        b'{"kind":"released","at_us":1,"hold":999}',
        b'{"kind":"released","at_us":1,"hold":2}',
        b'{"kind":"released","at_us":-1,"hold":5}',
        b'{"kind":"ledger-opened","at_us":1,"ledger_id":"x","schema":"repotrial/ledger@1"}',
        b'{"kind":"envelope-opened","at_us":1,"name":"total","limit":"99","unit":"usd"}',
        _reserve(envelope="none"),
        _reserve(unit="units"),
        _reserve(amount="-5"),
        _reserve(amount="8"),
        _reserve(holder="../../../elsewhere"),
    ],
)
def test_a_well_chained_entry_that_no_rule_allows_is_refused(path: Path, body: bytes) -> None:
    _forge(path, body)
    with raises_code("ledger-broken", match="entry 7"):
        Ledger(path)


def test_a_well_chained_entry_within_the_rules_is_taken(path: Path) -> None:
    _forge(path, _reserve())
    with Ledger(path) as ledger:
        assert ledger.read().open_runs == ("r", "r2")


def test_a_line_torn_at_any_byte_is_dropped_and_the_ledger_says_so(path: Path) -> None:
    data = path.read_bytes()
    start = data[:-1].rindex(b"\n") + 1
    for cut in range(start + 1, len(data), 5):
        path.write_bytes(data[:cut])
        with Ledger(path) as ledger:
            state = ledger.read()
            assert state.torn is not None
            assert state.torn.length_bytes == cut - start
            assert state.open_runs == ()
            ledger.reserve(build_cost(1), run="r9", envelopes=["total"])
            assert ledger.read().torn is None
        assert b'"kind":"tail-dropped"' in path.read_bytes()
        with Ledger(path) as ledger:
            assert ledger.read().open_runs == ("r9",)


def test_a_full_disk_leaves_the_ledger_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    # A child, because the limit holds for the whole process.
    script = (
        "import resource, signal, sys; from pathlib import Path; from decimal import Decimal\n"
        "from repotrial.cost import Amount, Ledger; from repotrial._core.errors import MachineError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "ledger = Ledger(Path(sys.argv[1])); size = Path(sys.argv[1]).stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))\n"
        "try: ledger.reserve(Amount.build(Decimal(1), 'usd'), run='r3', envelopes=['total'])\n"
        "except MachineError: sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False, capture_output=True)
    assert done.returncode == 7, done.stderr
    assert path.read_bytes() == data


class _InterruptedReader:
    """Is interrupted right behind the third entry, once."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._is_fresh = True

    def reset(self) -> None:
        self.entries = []

    def apply(self, number: int, body: bytes) -> None:
        self.entries.append(body)
        if number == 2 and self._is_fresh:
            self._is_fresh = False
            raise KeyboardInterrupt


def test_an_interrupt_between_two_entries_counts_none_twice(path: Path) -> None:
    reader = _InterruptedReader()
    file = LedgerFile(path, reader)
    with pytest.raises(KeyboardInterrupt), file.open_transaction():
        pass
    with file.open_transaction():
        assert len(reader.entries) == file.head.count == path.read_bytes().count(b"\n")
    file.close()


_WRITER = """
import sys
from decimal import Decimal
from pathlib import Path
from repotrial.cost import Amount, Exhausted, Ledger

ledger = Ledger(Path(sys.argv[1]))
for turn in range(int(sys.argv[3])):
    hold = ledger.reserve(Amount.build(Decimal("0.01"), "usd"), run=sys.argv[2], envelopes=["total"])
    if isinstance(hold, Exhausted):
        break
    print(hold.number, flush=True)
    hold.settle(Amount.build(Decimal("0.01"), "usd"))
"""


def _start_writer(path: Path, run: str, turns: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), run, str(turns)], stdout=subprocess.PIPE
    )


def test_processes_that_race_share_one_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.open_envelope("total", build_cost("0.3"))
    writers = [_start_writer(path, f"r{number}", 100) for number in range(3)]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    with Ledger(path) as ledger:
        state = ledger.read()
        assert (state.envelopes[0].spent, state.envelopes[0].held) == ("0.3", "0")
        assert isinstance(ledger.reserve(build_cost("0.01"), run="r", envelopes=["total"]), Exhausted)


def test_a_killed_writer_loses_nothing_that_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.open_envelope("total", build_cost(1000))
    writer = _start_writer(path, "victim", 10**6)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    told += [int(line) for line in writer.communicate()[0].split(b"\n")[:-1]]
    with Ledger(path) as ledger:
        ledger.conclude_dead()
        state = ledger.read()
        assert state.open_runs == ()
        # Each hold it was told of is settled; the last may have been written and not told.
        spent = Decimal(state.envelopes[0].spent) * 100
        assert len(told) <= spent <= len(told) + 1
