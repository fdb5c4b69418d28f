"""One real run for each cause, and one for each way in which an agent could bring an ending about (P5, P12).

Each way is tried by an agent whose change fails: whatever it does at the end, its rate must not rise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from repotrial.analysis import summarize_runs
from repotrial.score import JudgedRun, judge_run
from support.model_agents import TINY, finish, shell, write_script
from support.providers import Provider, open_provider
from support.trials import Court, open_court

WRONG = "echo 'echo 40' > answer.sh"
RIGHT = "echo 'echo 42' > answer.sh"
Reply = Callable[[dict[str, Any]], web.StreamResponse | None]


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def build_answer(body: dict[str, Any], steps: Sequence[str], *, stop: str = "stop") -> web.Response:
    """The next step by the number of results in the request; one word to the harness's own request."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": "ok"}
    reason = stop
    if "tools" in body and done < len(steps):
        arguments = json.dumps({"command": steps[done]})
        call = {"id": f"c{done}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return web.json_response({"model": body["model"], "choices": [choice], "usage": usage})


def conduct(
    court: Court,
    capsys: pytest.CaptureFixture[str],
    reply: Reply,
    *words: str | Path,
    steps: Sequence[str] = (WRONG,),
    agent: Path | str = TINY,
    limits: str = "",
) -> tuple[JudgedRun, int, Provider]:
    """One run whose provider replies as told; where that is None, it takes the steps."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        return reply(body) or build_answer(body, steps)

    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        prices = court.write("prices.csv", PRICES)
        status, told = court.start_json(
            capsys,
            court.write_contract(limits=limits),
            *("--agent", f"agent:{agent}", "--upstream", f"provider:{described}", "--prices", prices),
            *("--skip-upstream-check", *words),
        )
    scored = [event["entry"] for event in told if event["event"] == "scored"]
    return judge_run(Path(scored[-1]["directory"])), status, provider


PRICES = """\
action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:canned-model:input,1M-tokens,0,free for tests,,
model:canned-model:output,1k-tokens,0.001,,,4096
model:canned-model-2:input,1M-tokens,0,free for tests,,
model:canned-model-2:output,1k-tokens,0.001,,,4096
"""


def is_own(body: dict[str, Any]) -> bool:
    """Whether the harness asks for itself."""
    return "tools" not in body


def has_acted(body: dict[str, Any]) -> bool:
    return any(message["role"] == "tool" for message in body["messages"])


def fail(status: int) -> web.Response:
    return web.json_response({"error": {"message": "no"}}, status=status)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_an_outage_that_the_harness_meets_too_excuses_the_attempt(
    court: Court, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    is_down = False

    def reply(body: dict[str, Any]) -> web.StreamResponse | None:
        nonlocal is_down
        is_down = is_down or has_acted(body)
        return fail(status) if is_down else None

    run, code, _ = conduct(court, capsys, reply)
    assert (run.cause.cause, run.cause.is_excused) == ("provider", True)
    assert run.entry.status == "failure", "the status stays as the record has it"
    assert code == 3
    summary = summarize_runs(court.runs).summary.agents[0]
    assert (summary.planned, summary.attempted, summary.indeterminate) == (1, 0, 1)
    assert summary.excused == {"provider": 1}


def test_a_wrong_model_name_is_the_configuration_and_not_the_agent(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run, code, _ = conduct(court, capsys, lambda _: fail(404))
    assert (run.cause.cause, run.cause.is_excused, code) == ("configuration", True, 3)


@pytest.mark.parametrize("status", [429, 500])
def test_trouble_that_only_the_agent_meets_is_its_own(
    court: Court, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    """As if it had flooded an account of its own, or sent what makes a provider fail."""
    run, code, _ = conduct(
        court, capsys, lambda body: fail(status) if has_acted(body) and not is_own(body) else None
    )
    assert (run.cause.cause, run.cause.is_excused, code) == ("gave-up", False, 0)
    assert_counts_as_failure(court)


def test_a_prompt_beyond_the_context_is_the_agents_own_doing(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _, _ = conduct(court, capsys, lambda body: fail(400) if has_acted(body) else None)
    assert (run.cause.cause, run.cause.is_excused) == ("gave-up", False)
    assert_counts_as_failure(court)


def test_asking_for_another_model_is_the_agents_own_doing(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even while the provider is down for everybody: the plan did not ask for that model."""
    text = TINY.read_text().replace('os.environ["TINY_MODEL"]', '"canned-model-2"')
    agent = court.write("other.toml", text.replace('name = "tiny"', 'name = "other"'))
    run, _, _ = conduct(court, capsys, lambda _: fail(500), "--model", "canned-model", agent=agent)
    assert (run.cause.cause, run.cause.is_excused) == ("gave-up", False)


def test_closing_its_own_stream_excuses_nothing(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    text = TINY.read_text().replace(
        "        answer = ask(messages)\n",
        "        if len(messages) > 1:\n            import socket\n"
        "            s = socket.create_connection(('127.0.0.1', 4000))\n"
        "            s.sendall(b'POST /v1/chat/completions HTTP/1.1\\\\r\\\\nHost: x\\\\r\\\\n')\n"
        "            s.close()\n            sys.exit(3)\n"
        "        answer = ask(messages)\n",
    )
    agent = court.write("closing.toml", text.replace('name = "tiny"', 'name = "closing"'))
    run, _, _ = conduct(court, capsys, lambda _: None, agent=agent)
    assert (run.cause.cause, run.cause.is_excused) == ("gave-up", False)
    assert_counts_as_failure(court)


WAYS = {
    "own processor hog": (
        f"{WRONG}; for i in 1 2 3 4; do (while :; do :; done) & done; sleep 30",
        "cpu_seconds = 4",
    ),
    "own full disk": (
        f"{WRONG}; head -c 40m /dev/zero > big; sleep 30",
        "disk_mb = { request = 1, kill = 20 }",
    ),
    "killed parent": (f"{WRONG}; kill -9 -1", ""),
    "a file that cannot be sealed": (
        f"{WRONG}; truncate -s 60G sparse; mkfifo pipe; ln -s /proc/self/mem link",
        "",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_an_agent_does_to_itself_never_excuses_it(
    court: Court, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    command, limits = WAYS[way]
    run, _, _ = conduct(court, capsys, lambda _: None, steps=(command,), limits=limits)
    assert not run.cause.is_excused, run.cause
    assert run.entry.status != "success"
    assert_counts_as_failure(court)


def assert_counts_as_failure(court: Court) -> None:
    """The rate is the honest one: one planned run, and no success."""
    summary = summarize_runs(court.runs).summary.agents[0]
    assert (summary.planned, summary.success, summary.indeterminate, summary.excused) == (1, 0, 0, {})
    assert summary.best_case == 0


@pytest.mark.parametrize(
    ("stop", "cause"), [("stop", "finished"), ("length", "output-limit"), ("content_filter", "refused")]
)
def test_the_last_answer_tells_how_it_ended(
    court: Court, capsys: pytest.CaptureFixture[str], stop: str, cause: str
) -> None:
    run, code, _ = conduct(
        court, capsys, lambda body: build_answer(body, (RIGHT,), stop=stop), steps=(RIGHT,)
    )
    assert (run.cause.cause, run.entry.status, code) == (cause, "success", 0)
    assert run.trust == "unknown signer"


def test_a_limit_of_the_run_is_no_excuse(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    run, _, _ = conduct(
        court, capsys, lambda _: None, steps=(f"{WRONG}; while :; do :; done",), limits="cpu_seconds = 2"
    )
    assert (run.cause.cause, run.cause.is_excused) == ("run-limit", False)


def test_a_closed_shared_envelope_is_never_held_against_an_agent(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run, code, _ = conduct(court, capsys, lambda _: None, "--total-budget", "0.000001")
    assert (run.cause.cause, run.cause.is_excused, code) == ("shared-envelope", True, 3)
    assert run.card.gate_vector[3] == "passed", run.card.gates[3].why
    assert run.evidence.termination is not None
    assert run.evidence.termination.event.code == "shared-envelope"


def test_runs_are_repeated_for_a_cause_and_no_more_than_twice(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run retry --cause provider` conducts what an outage excused; what counts is left alone."""
    is_down = True

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        return fail(503) if is_down else build_answer(body, (RIGHT,))

    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        prices = court.write("prices.csv", PRICES)
        words = ("--agent", f"agent:{TINY}", "--upstream", f"provider:{described}", "--prices", prices)
        status, told = court.start_json(capsys, court.write_contract(), *words, "--skip-upstream-check")
        assert status == 3
        assert [event["entry"]["cause"] for event in told if event["event"] == "scored"] == ["provider"]
        is_down = False
        assert court.retry(capsys, "configuration")[0] == 0
        status, told = court.retry(capsys, "provider")
        assert status == 0
        (entry,) = [event["entry"] for event in told if event["event"] == "scored"]
        assert (entry["status"], entry["cause"]) == ("success", "finished")
        asked = len(provider.asked)
        court.retry(capsys, "provider")
        assert len(provider.asked) == asked, "what counts is not repeated"
    summary = summarize_runs(court.runs).summary.agents[0]
    assert (summary.planned, summary.attempts, summary.success, summary.repeats) == (1, 2, 1, 1)
    assert summary.first_attempts == 0


def test_a_provider_that_does_not_answer_is_found_before_the_first_run(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return fail(401)

    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        prices = court.write("prices.csv", PRICES)
        words = ("--agent", f"agent:{TINY}", "--upstream", f"provider:{described}", "--prices", prices)
        ended = court.start(capsys, court.write_contract(), *words)
    assert ended.status == 3
    assert "upstream-unready" in ended.err
    assert len(provider.asked) == 1


def test_runs_on_an_upstream_that_refuses_everything_pause(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run, status, provider = conduct(court, capsys, lambda _: fail(404), "--repeats", "3")
    assert (run.cause.cause, status) == ("configuration", 3)
    assert len(provider.asked) == 2, "one of the agent, one of the harness; the other two runs did not begin"


def test_an_agent_whose_dialect_the_provider_does_not_speak_is_refused_at_planning(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    described = court.write("provider.toml", 'base_url = "http://127.0.0.1:9"\ndialects = ["gemini"]\n')
    prices = court.write("prices.csv", PRICES)
    words = ("--agent", f"agent:{TINY}", "--upstream", f"provider:{described}", "--prices", prices)
    ended = court.start(capsys, court.write_contract(), *words)
    assert ended.status == 2
    assert "upstream-dialect" in ended.err


def test_transient_errors_meet_an_agent_that_retries_and_change_no_verdict(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every third request fails once: an agent with retries of its own does as well as without."""
    text = TINY.read_text().replace(
        "        answer = ask(messages)\n",
        "        for _ in range(5):\n            try:\n"
        "                answer = ask(messages)\n                break\n"
        "            except urllib.error.HTTPError as error:\n                if error.code != 503: raise\n",
    )
    agent = court.write("retrying.toml", text.replace('name = "tiny"', 'name = "retrying"'))
    count = 0

    def reply(body: dict[str, Any]) -> web.StreamResponse | None:
        nonlocal count
        count += not is_own(body)
        return fail(503) if count % 3 == 1 and not is_own(body) else None

    run, code, _ = conduct(court, capsys, reply, agent=agent, steps=(RIGHT,))
    assert (run.entry.status, run.cause.cause, code) == ("success", "finished", 0)
    assert run.entry.retries >= 1


def test_a_script_that_fails_is_finished_and_counts(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(court, [shell(WRONG), finish()])
    _, told = court.start_json(
        capsys, court.write_contract(), "--agent", f"agent:{TINY}", "--upstream", f"script:{script}"
    )
    (entry,) = [event["entry"] for event in told if event["event"] == "scored"]
    assert (entry["cause"], entry["is_excused"], entry["status"]) == ("finished", False, "failure")
