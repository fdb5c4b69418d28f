"""The bookkeeping of programs: parents, commands and ends from numbers alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repotrial.syscalls import EndRecord, StartRecord
from repotrial.syscalls._ledger import HARNESS, Image, Process, ProgramLedger


def build_image(*argv: str, stamp: int = 1) -> Image:
    return Image(argv=argv, is_truncated=False, exe=f"/usr/bin/{argv[0]}", cwd="/workspace", stamp=stamp)


class Sandbox:
    """Processes with the numbers that a kernel would keep for them."""

    def __init__(self, *, has_commands: bool = True) -> None:
        self.ledger = ProgramLedger(has_commands=has_commands)
        self.numbers: dict[int, int] = {}
        self.records: list[StartRecord | EndRecord] = []

    def fork(self, parent: int, child: int) -> None:
        self.numbers[child] = self.numbers.get(parent, HARNESS)

    def ask(self, pid: int, path: str = "/bin/x") -> Process:
        process = self.ledger.processes.get(pid) or Process(pid)
        if process.pending is not None:
            self.ledger.fail(process)
        base = self.ledger.find_program(self.numbers.get(pid, HARNESS))
        assert base is not None
        self.numbers[pid] = self.ledger.next_number
        self.ledger.begin_try(process, base=base, path=path, at_us=pid)
        return process

    def start(self, pid: int, name: str) -> StartRecord:
        self.records += self.ledger.start(self.ask(pid), build_image(name))
        return [each for each in self.records if isinstance(each, StartRecord)][-1]

    def end(
        self, pid: int, status: int | None = 0, *, comm: str | None = None
    ) -> list[StartRecord | EndRecord]:
        process = self.ledger.processes[pid]
        return self.ledger.end(process, status=status, at_us=1000 + pid, comm=comm)


def test_what_the_harness_starts_is_no_command_and_its_children_are() -> None:
    sandbox = Sandbox()
    agent = sandbox.start(10, "agent")
    sandbox.fork(10, 11)
    shell = sandbox.start(11, "sh")
    sandbox.fork(11, 12)
    cat = sandbox.start(12, "cat")
    assert (agent.parent, agent.command) == (None, None)
    assert (shell.parent, shell.command) == (agent.number, shell.number)
    assert (cat.parent, cat.command) == (shell.number, shell.number)


def test_before_it_asks_a_model_an_agent_has_helpers_and_no_commands() -> None:
    sandbox = Sandbox(has_commands=False)
    agent = sandbox.start(10, "wrapper")
    sandbox.fork(10, 11)
    native = sandbox.start(11, "native")
    sandbox.ledger.has_commands = True
    sandbox.fork(11, 12)
    shell = sandbox.start(12, "sh")
    assert (native.parent, native.command) == (agent.number, None)
    assert (shell.parent, shell.command) == (native.number, shell.number)


def test_a_process_that_becomes_another_program_keeps_parent_and_command() -> None:
    sandbox = Sandbox()
    agent = sandbox.start(10, "agent")
    sandbox.fork(10, 11)
    env = sandbox.start(11, "env")
    sleep = sandbox.start(11, "sleep")
    assert (sleep.replaces, sleep.parent, sleep.command) == (env.number, agent.number, env.number)
    (end,) = (each for each in sandbox.records if isinstance(each, EndRecord))
    assert (end.number, end.replaced_by) == (env.number, sleep.number)
    (end,) = (each for each in sandbox.end(11, 7 << 8) if isinstance(each, EndRecord))
    assert (end.number, end.status) == (sleep.number, 7 << 8)


def test_a_failed_try_stands_for_what_the_process_was() -> None:
    sandbox = Sandbox()
    agent = sandbox.start(10, "agent")
    failed = sandbox.ask(10, "/no/such")
    assert failed.pending is not None
    number = failed.pending.number
    assert sandbox.ledger.find_program(number) is None
    sandbox.ledger.fail(failed)
    assert sandbox.ledger.find_program(number) == agent.number
    sandbox.fork(10, 11)
    assert sandbox.start(11, "sh").parent == agent.number


def test_an_orphan_of_a_program_that_ended_long_ago_has_its_parent() -> None:
    sandbox = Sandbox()
    sandbox.start(10, "agent")
    sandbox.fork(10, 11)
    shell = sandbox.start(11, "sh")
    sandbox.fork(11, 12)
    sandbox.end(11)
    late = sandbox.start(12, "late")
    assert (late.parent, late.command) == (shell.number, shell.number)


def test_a_try_without_a_confirmation_is_judged_by_its_name_and_its_file() -> None:
    for comm, is_missing, is_program in (
        ("tiny", True, True),
        ("sh", False, False),
        (None, False, True),
        (None, True, False),
    ):
        sandbox = Sandbox()
        process = sandbox.ask(10, "/workspace/tiny")
        assert process.pending is not None
        process.pending.is_missing = is_missing
        records = sandbox.end(10, 0, comm=comm)
        assert [type(each) for each in records] == ([StartRecord, EndRecord] if is_program else [])
        assert all(not each.is_confirmed for each in records if isinstance(each, StartRecord))
        assert sandbox.ledger.unconfirmed == is_program


def test_a_fork_that_never_becomes_a_program_has_no_end() -> None:
    sandbox = Sandbox()
    sandbox.start(10, "agent")
    sandbox.fork(10, 11)
    failed = sandbox.ask(11, "/no/such")
    assert failed.pending is not None
    failed.pending.is_missing = True
    assert sandbox.end(11, 127 << 8) == []


def test_processor_time_of_a_program_is_without_what_its_process_used_before() -> None:
    sandbox = Sandbox()
    sandbox.start(10, "agent")
    attempt = sandbox.ask(10).pending
    assert attempt is not None
    attempt.cpu_ns = 5_000_000
    process = sandbox.ledger.processes[10]
    _, replaced = sandbox.ledger.start(process, build_image("next"))
    process.cpu_ns, process.is_cpu_exact = 7_000_000, True
    (end,) = sandbox.end(10)
    assert isinstance(replaced, EndRecord)
    assert isinstance(end, EndRecord)
    assert (replaced.cpu_us, end.cpu_us, end.cpu_is_lower_bound) == (5000, 2000, False)


@given(st.lists(st.tuples(st.sampled_from(["fork", "start", "fail", "end"]), st.integers(0, 9)), max_size=60))
def test_every_number_leads_to_a_program_whatever_happens(steps: list[tuple[str, int]]) -> None:
    sandbox = Sandbox()
    sandbox.start(100, "agent")
    for index, (step, place) in enumerate(steps):
        pids = sorted(sandbox.numbers)
        pid = pids[place % len(pids)]
        match step:
            case "fork":
                sandbox.fork(pid, 200 + index)
            case "start":
                sandbox.start(pid, "x")
            case "fail":
                sandbox.ledger.fail(sandbox.ask(pid))
            case _:
                if pid in sandbox.ledger.processes:
                    sandbox.records += sandbox.end(pid)
                    del sandbox.numbers[pid]
        if not sandbox.numbers:
            return
        for number in sandbox.numbers.values():
            assert sandbox.ledger.find_program(number) is not None
    starts = {each.number: each for each in sandbox.records if isinstance(each, StartRecord)}
    ends = [each.number for each in sandbox.records if isinstance(each, EndRecord)]
    assert len(ends) == len(set(ends)) == sandbox.ledger.ended
    assert set(ends) <= set(starts)
    for start in starts.values():
        assert start.command is None or starts[start.command].command == start.command
