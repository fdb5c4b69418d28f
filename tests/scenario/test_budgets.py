"""One live budget over models, execution, people and overhead, and runs that use it up (B4, B11).

Beside each ending stands an honest run under the same prices that succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial import api
from repotrial.analysis import summarize_runs
from repotrial.cost import Amount, load_ledger_state
from repotrial.score import JudgedRun, judge_run
from repotrial.trace import AcceptanceExecution, NotStarted, iter_events
from support.model_agents import TINY, finish, shell, write_script
from support.trials import HONEST, Court, open_court

BOOK = """\
action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:canned-model:input,1M-tokens,0,free for tests,,
model:canned-model:output,1k-tokens,0.01,,,4096
exec:wall,second,{exec},,,
overhead:wall,second,{overhead},{note},,
human:minute,minute,1,,,
storage:byte,1GB,0.02,,,
"""
SLOW = "sleep 600\n"
SLOW_SETUP = "\n[[setup]]\nrun = 'sleep 600'\ntimeout_seconds = 900\n"


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def write_book(court: Court, *, execution: str = "0.1", overhead: str = "0.001") -> Path:
    note = "" if Decimal(overhead) else "free for tests"
    return court.write("prices.csv", BOOK.format(exec=execution, overhead=overhead, note=note))


def start(
    court: Court, capsys: pytest.CaptureFixture[str], contract: Path, script: str, *words: str | Path
) -> tuple[list[JudgedRun], int]:
    """Runs of a script, and the exit code."""
    agent = court.write("agent.sh", script)
    status, told = court.start_json(capsys, contract, "--agent", f"script:{agent}", *words)
    scored = [event["entry"] for event in told if event["event"] == "scored"]
    return [judge_run(Path(entry["directory"])) for entry in scored], status


def assert_books_agree(court: Court, prices: Path, runs: list[JudgedRun]) -> Decimal:
    """The ledger is the sum of the runs' statements, and nothing is held any more."""
    (total,) = [
        each for each in load_ledger_state(court.runs / "ledger.jsonl").envelopes if each.name == "total"
    ]
    stated = Decimal(0)
    for run in runs:
        statement = api.price_run(run.directory, api.load_prices(prices)).statement
        assert isinstance(statement.total, Amount), statement.total
        stated += statement.total.decimal
    assert Decimal(total.spent) == stated
    assert (total.held, total.assumed) == ("0", "0")
    return stated


def test_a_budget_used_up_in_acting_ends_the_run_and_counts(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court)
    contract = court.write_contract(limits="cost_usd = 0.4")
    words = ("--prices", prices, "--total-budget", "100")
    (run,), status = start(court, capsys, contract, SLOW, *words)
    assert (run.cause.cause, run.cause.is_excused, run.entry.status, status) == (
        "run-limit",
        False,
        "failure",
        0,
    )
    assert run.evidence.termination is not None
    assert run.evidence.termination.event.code == "cost-cap"
    assert run.card.gate_vector[3] == "failed", run.card.gates[3].why
    (honest,), status = start(court, capsys, contract, HONEST, *words)
    assert (honest.entry.status, honest.cause.cause, status) == ("success", "finished", 0)
    spent = assert_books_agree(court, prices, [run, honest])
    statement = api.price_run(run.directory, api.load_prices(prices)).statement
    assert isinstance(statement.total, Amount)
    # By what passes between two looks and until everything inside has ended; headroom was kept.
    assert Decimal("0.1") < statement.total.decimal <= Decimal("0.4") + Decimal("0.1") * 10
    assert spent > 0


def test_headroom_is_drawn_by_acceptance_after_the_agent_used_up_the_rest(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent has fixed it and dawdles to the end of its budget: its change is judged all the same."""
    contract = court.write_contract(limits="cost_usd = 0.6", policy='violations = { limits = "compliance" }')
    words = ("--prices", write_book(court), "--total-budget", "100")
    (run,), _ = start(court, capsys, contract, HONEST + SLOW, *words)
    assert run.evidence.termination is not None
    assert run.evidence.termination.event.code == "cost-cap"
    assert run.entry.status == "success", run.entry.why
    assert all(not isinstance(e.exit, NotStarted) for e in run.evidence.facts.executions)


def test_a_budget_used_up_in_setup_is_no_verdict_on_the_agent(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court, execution="0.001", overhead="0.1")
    slow = court.write_contract("slow", environment=SLOW_SETUP, limits="cost_usd = 0.4")
    words = ("--prices", prices, "--total-budget", "100")
    (run,), status = start(court, capsys, slow, HONEST, *words)
    assert (run.cause.cause, run.cause.is_excused, run.entry.status, status) == (
        "configuration",
        True,
        "invalid",
        3,
    )
    assert not run.evidence.facts.has_briefing
    quick = court.write_contract("quick", environment=SLOW_SETUP.replace("sleep 600", "true"))
    (honest,), status = start(court, capsys, quick, HONEST, *words)
    assert (honest.entry.status, status) == ("success", 0)
    assert_books_agree(court, prices, [run, honest])


def test_a_shared_budget_used_up_in_setup_is_the_envelopes(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court, execution="0.001", overhead="0.1")
    slow = court.write_contract("slow", environment=SLOW_SETUP)
    (run,), status = start(court, capsys, slow, HONEST, "--prices", prices, "--total-budget", "1.2")
    assert (run.cause.cause, run.cause.is_excused, status) == ("shared-envelope", True, 3)


def write_slow_check(court: Court, name: str, *, seconds: str, limits: str = "", repeats: int = 1) -> Path:
    """The first check takes so long; with repeats, one pass of them is enough."""
    value = f'sleep {seconds}; test "$(sh answer.sh)" = 42'
    if repeats == 1:
        return court.write_contract(name, value=value, limits=limits)
    rule = f'rule = "passes-required"\nrepeats = {repeats}\npasses_required = 1\n'
    return court.write_contract(name, value=value, limits=limits, first_check=rule)


def test_a_budget_used_up_in_acceptance_fails_the_endpoint(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court)
    contract = write_slow_check(court, "slow", seconds="50", limits="cost_usd = 0.6")
    words = ("--prices", prices, "--total-budget", "100")
    (run,), status = start(court, capsys, contract, HONEST, *words)
    assert (run.entry.status, run.cause.cause, run.cause.is_excused, status) == (
        "failure",
        "run-limit",
        False,
        0,
    )
    tags = {tag.id for tag in run.card.tags}
    assert "resource-termination" in tags
    assert "acceptance-failure" not in tags, "P12: a budget that is used up is no failing check"
    quick = write_slow_check(court, "quick", seconds="0", limits="cost_usd = 0.6")
    (honest,), _ = start(court, capsys, quick, HONEST, *words)
    assert honest.entry.status == "success"
    assert_books_agree(court, prices, [run, honest])


def test_a_budget_used_up_in_adjudication_fails_the_endpoint_and_keeps_what_was_judged(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pass of five is enough, and there is one: the rule was not carried out all the same."""
    prices = write_book(court)
    contract = write_slow_check(court, "slow", seconds="4", limits="cost_usd = 1.2", repeats=5)
    words = ("--prices", prices, "--total-budget", "100")
    (run,), _ = start(court, capsys, contract, HONEST, *words)
    assert (run.entry.status, run.cause.cause) == ("failure", "run-limit")
    assert run.card.gate_vector[3] == "failed", "whatever the rule makes of the passes that there are"
    events = [event.payload for event in iter_events(run.directory / "trace.jsonl")]
    attempts = [e for e in events if isinstance(e, AcceptanceExecution) and e.check_id == "value"]
    assert [e.attempt for e in attempts] == [1, 2, 3, 4, 5]
    judged = [e for e in attempts if not isinstance(e.exit, NotStarted)]
    assert 0 < len(judged) < 5, "the partial rubric is kept"
    assert_books_agree(court, prices, [run])
    (summary,) = summarize_runs(court.runs).summary.agents
    assert (summary.planned, summary.success, summary.indeterminate) == (1, 0, 0)


def test_a_shared_budget_used_up_in_acceptance_is_never_held_against_the_agent(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court)
    contract = write_slow_check(court, "slow", seconds="50", limits="cost_usd = 1")
    (run,), status = start(court, capsys, contract, HONEST, "--prices", prices, "--total-budget", "0.9")
    assert (run.cause.cause, run.cause.is_excused, status) == ("shared-envelope", True, 3)
    assert run.entry.status == "acceptance-error"
    assert run.card.gate_vector[3] == "passed", run.card.gates[3].why


def test_without_prices_everything_is_in_abstract_units_and_says_so(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(court, [shell("sed -i s/41/42/ answer.sh"), finish()])
    words = ("--agent", f"agent:{TINY}", "--upstream", f"script:{script}", "--prices", "none")
    contract = court.write_contract()
    _, told = court.start_json(capsys, contract, *words, "--total-budget", "500")
    (entry,) = [event["entry"] for event in told if event["event"] == "scored"]
    run = judge_run(Path(entry["directory"]))
    assert run.entry.status == "success"
    assert run.card.cost.method == "fallback:1"
    statement = api.price_run(run.directory, None).statement
    terms = (statement.lm, statement.exec, statement.overhead, statement.total)
    assert all(isinstance(term, Amount) and term.unit == "units" and term.decimal > 0 for term in terms)
    assert_books_agree(court, Path("none"), [run])
    other = court.write_contract("other")
    _, told = court.start_json(capsys, other, *words, "--total-budget", "500", "--unit-cap", "1")
    (entry,) = [event["entry"] for event in told if event["event"] == "scored"]
    assert judge_run(Path(entry["directory"])).cause.cause == "run-limit"


def test_time_of_a_model_driven_agent_is_paid_from_the_same_budget(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = write_book(court)
    script = write_script(court, [shell("sleep 600"), finish()])
    words = ("--agent", f"agent:{TINY}", "--upstream", f"script:{script}", "--prices", prices)
    contract = court.write_contract(limits="cost_usd = 0.8")
    _, told = court.start_json(capsys, contract, *words, "--total-budget", "100")
    (entry,) = [event["entry"] for event in told if event["event"] == "scored"]
    run = judge_run(Path(entry["directory"]))
    assert (run.cause.cause, run.cause.is_excused) == ("run-limit", False)
    assert run.evidence.termination is not None
    assert run.evidence.termination.event.code == "cost-cap"
    assert_books_agree(court, prices, [run])
