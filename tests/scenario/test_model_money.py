"""Money and keys of runs that ask a model: budgets that runs share, and credentials that nobody sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web

from repotrial import api
from repotrial.cost import EnvelopeState, load_ledger_state
from repotrial.policy import read_thresholds
from repotrial.score import judge_run
from repotrial.trace import Intervention, Response, ToolInvocation
from support.command_line import surroundings
from support.model_agents import TINY, ModelRun, finish, shell, try_script, try_upstream, write_script
from support.providers import open_provider
from support.trials import Court, open_court

_FIX = shell("sed -i s/41/42/ answer.sh")
_SECRET = "key-that-nobody-inside-may-see-0123456789"
_PRICES = """\
action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:canned-model:input,1M-tokens,0,free for tests,,
model:canned-model:output,1k-tokens,1,,,4096
"""

_STREAMER = """
import http.client, json, os, subprocess, time, urllib.error, urllib.request

BASE = os.environ["TINY_URL"].removesuffix("/v1/chat/completions")
HEADERS = {"content-type": "application/json", "authorization": "Bearer " + os.environ["TINY_KEY"]}
MESSAGES = [{"role": "user", "content": "Say something long."}]
MODEL = os.environ["TINY_MODEL"]


def ask(path, body):
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), HEADERS)
    try:
        with urllib.request.urlopen(request) as answer:
            return 200, len(answer.read())
    except http.client.IncompleteRead as cut:
        return "cut", cut.partial.decode()[-300:]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


chat = {"model": MODEL, "messages": MESSAGES, "stream": True, "max_tokens": 512}
found = [
    ask("/v1/chat/completions", chat),
    ask("/v1/chat/completions", chat),
    ask("/v1/responses", {"model": MODEL, "input": "Hi", "stream": True, "max_output_tokens": 512}),
    ask("/v1/messages", {"model": MODEL, "messages": MESSAGES, "stream": True, "max_tokens": 512}),
    ask(f"/v1beta/models/{MODEL}:streamGenerateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}),
]
print(json.dumps(found), flush=True)
subprocess.Popen(["sleep", "100000"])
time.sleep(100000)
"""
"""Asks for a stream, then for another in each dialect, and stays."""


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def _build_answer(command: str | None) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": "Done." if command is None else None}
    if command is not None:
        function = {"name": "shell", "arguments": json.dumps({"command": command})}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    return {
        "model": "canned-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


def test_a_providers_key_is_neither_inside_nor_in_any_record(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[str | None] = ["env; cat /proc/self/environ; sed -i s/41/42/ answer.sh", None]
    keys: list[str | None] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        keys.append(request.headers.get("authorization"))
        return web.json_response(_build_answer(steps[len(keys) - 1]))

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider, surroundings(FAKE_PROVIDER_KEY=_SECRET):
        described = court.write(
            "provider.toml",
            f'base_url = "http://127.0.0.1:{provider.port}"\nkey_variable = "FAKE_PROVIDER_KEY"\n',
        )
        run = try_upstream(court, capsys, f"provider:{described}", "--prices", prices)
    assert run.status == "success"
    assert keys == [f"Bearer {_SECRET}"] * 2
    assert _find_files_with(run.directory, _SECRET) == []


def test_a_provider_that_repeats_the_key_in_its_refusal_does_not_give_it_away(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": f"no such key: {request.headers['authorization']}"}, status=400)

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider, surroundings(FAKE_PROVIDER_KEY=_SECRET):
        described = court.write(
            "provider.toml",
            f'base_url = "http://127.0.0.1:{provider.port}"\nkey_variable = "FAKE_PROVIDER_KEY"\n',
        )
        run = try_upstream(court, capsys, f"provider:{described}", "--prices", prices, code=3)
    assert _find_files_with(run.directory, _SECRET) == []
    uses = [e.payload for e in run.list_of(ToolInvocation) if isinstance(e.payload, ToolInvocation)]
    assert any(use.stdout is not None and "no such key" in run.read(use.stdout.prefix) for use in uses)


@pytest.mark.parametrize("status", [401, 404, 429, 503, None])
def test_a_provider_that_answers_nothing_measures_nobody_and_the_run_is_conducted_again(
    court: Court, capsys: pytest.CaptureFixture[str], status: int | None
) -> None:
    is_well = False

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        if is_well:
            return web.json_response(_build_answer(None))
        return web.json_response({"error": "not now"}, status=status or 500)

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider:
        port = provider.port if status is not None else _find_closed_port()
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{port}"\n')
        contract = court.write_contract()
        words = (
            contract,
            "--agent",
            f"agent:{TINY}",
            "--upstream",
            f"provider:{described}",
            "--prices",
            prices,
            "--skip-upstream-check",
        )
        code, told = court.start_json(capsys, *words)
        (entry,) = (event["entry"] for event in told if event["event"] == "scored")
        assert (code, entry["status"]) == (3, "invalid")
        assert "model-unreachable: expected a model to answer, found that none did" in entry["why"]
        is_well = True
        if status is not None:
            code, told = court.start_json(capsys, *words)
            (again,) = (event["entry"] for event in told if event["event"] == "scored")
            assert again["directory"] != entry["directory"]
            assert (code, again["status"]) == (0, "failure")  # it was answered, and did nothing
            summary = api.summarize_runs(court.runs).summary
            assert summary.repeated == (entry["directory"],)
            assert [(found.attempted, found.invalid) for found in summary.agents] == [(1, 0)]


def test_an_outage_after_an_answer_is_the_providers_and_the_status_stays(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request)
        if len(asked) == 1:
            return web.json_response(_build_answer("true"))
        return web.json_response({"error": "not now"}, status=503)

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        run = try_upstream(court, capsys, f"provider:{described}", "--prices", prices, code=3)
    assert run.status == "failure"
    assert judge_run(run.directory).cause.cause == "provider"


def test_a_parameter_that_the_provider_refuses_of_everybody_is_the_configuration(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": "no such parameter"}, status=400)

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        run = try_upstream(court, capsys, f"provider:{described}", "--prices", prices, code=3)
    assert run.status == "failure"
    assert judge_run(run.directory).cause.cause == "configuration"


def _find_closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _find_files_with(directory: Path, secret: str) -> list[Path]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if secret.encode() in path.read_bytes()]


def _load_envelope(court: Court, name: str) -> EnvelopeState:
    state = load_ledger_state(court.runs / "ledger.jsonl")
    assert state.open_runs == ()
    return next(envelope for envelope in state.envelopes if envelope.name == name)


def test_a_budget_is_shared_by_runs_at_once_and_by_the_next_start(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(court, [_FIX, shell("sh answer.sh"), finish()])
    prices = court.write("prices.csv", _PRICES)
    words = ["--agent", f"agent:{TINY}", "--upstream", f"script:{script}", "--prices", str(prices)]
    words += ["--total-budget", "0.57", "--jobs", "2"]  # a request takes 0.007, and may take 0.512
    contract = court.write_contract()
    status, told = court.start_json(capsys, contract, *words, "--repeats", "2")
    assert status in (0, 3)
    first = _load_envelope(court, "total")
    assert Decimal(0) < Decimal(first.spent) <= Decimal("0.57")
    assert first.held == "0"
    runs = [ModelRun(Path(e["entry"]["directory"]), e["entry"]["status"]) for e in told if "entry" in e]
    answers = [e.payload for run in runs for e in run.list_of(Response) if isinstance(e.payload, Response)]
    assert sum(Decimal(answer.cost_usd or "0") for answer in answers) == Decimal(first.spent)
    status, told = court.start_json(capsys, contract, *words, "--repeats", "4")
    assert status == 3, "some runs could not be done for want of a budget that they share"
    last = _load_envelope(court, "total")
    assert Decimal(first.spent) <= Decimal(last.spent) <= Decimal("0.57")
    ended = [ModelRun(Path(e["entry"]["directory"]), e["entry"]["status"]) for e in told if "entry" in e]
    assert {run.termination.code for run in ended} == {"exit", "shared-envelope"}


def _write_streamer(court: Court) -> Path:
    head, _, rest = TINY.read_text(encoding="utf-8").partition('"agent.py" = """')
    return court.write(
        "streamer.toml", f"{head}\"agent.py\" = '''{_STREAMER}'''{rest.partition(chr(34) * 3)[2]}"
    )


def test_a_stream_is_cut_at_the_cap_and_the_agent_that_stays_is_ended_after_a_time_of_grace(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        choice = {"index": 0, "delta": {"content": "word"}, "finish_reason": None}
        piece = f"data: {json.dumps({'id': 'c', 'model': 'canned-model', 'choices': [choice]})}\n\n"
        with contextlib.suppress(ConnectionError):
            await response.write(piece.encode())
            await asyncio.sleep(1)  # what comes all at once may be refused before it begins
            for _ in range(511):  # what the agent's request allows
                await response.write(piece.encode())
        return response

    prices = court.write("prices.csv", _PRICES)
    contract = court.write_contract(limits="cost_usd = 0.05")
    agent = f"agent:{_write_streamer(court)}"
    patient = court.write_thresholds("percent = 80", "percent = 0")  # else `dominance` may come first
    words = ("--prices", prices, "--thresholds", patient)
    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        run = try_upstream(court, capsys, f"provider:{described}", *words, agent=agent, contract=contract)
    assert len(provider.asked) == 1
    (first, *later) = _read_printed(run)
    assert first[0] == "cut"
    assert "insufficient_quota" in first[1]
    assert [status for status, _ in later] == [402] * 4
    errors = [json.loads(body) for _, body in later]
    assert [error["error"].get("type") for error in errors[:2]] == ["insufficient_quota"] * 2
    assert (errors[2]["type"], errors[2]["error"]["type"]) == ("error", "billing_error")
    assert errors[3]["error"]["code"] == 402
    assert (run.termination.nature, run.termination.code) == ("resource", "cost-cap")
    assert run.status == "failure", "acceptance was executed all the same"
    assert any(event.type == "acceptance-execution" for event in run.events)
    signals = {signal.name: signal for signal in run.termination.signals}
    over = signals["cost_usd_overspend"]
    assert over.threshold is not None
    # By what arrived at once, on a machine with other things to do; never by more than was declared.
    assert Decimal(over.value) <= Decimal(over.threshold) < Decimal("0.512")
    assert Decimal(signals["cost_usd"].value) == Decimal("0.0475") + Decimal(over.value)
    assert api.price_run(run.directory, api.load_prices(prices)).overspend["cost_usd"] == over.value
    assert api.recompute_run(run.directory).holds


def _read_printed(run: ModelRun) -> list[tuple[int | str, str]]:
    uses = [e.payload for e in run.list_of(ToolInvocation) if isinstance(e.payload, ToolInvocation)]
    (printed,) = (run.read(use.stdout.prefix) for use in uses if use.stdout is not None)
    return [(status, text) for status, text in json.loads(printed)]


def test_a_deletion_with_which_the_agent_ends_is_judged_as_any_other(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    published = read_thresholds().decode()
    careful = court.write(
        "thresholds.toml", published.replace("roll_back_after = 200", "roll_back_after = 3")
    )
    make = shell("mkdir d; for n in a b c; do echo $n > d/$n; done")
    end = shell("rm -rf d; kill -9 $PPID")
    run = try_script(court, capsys, [make, end, finish()], "--thresholds", careful)
    actions = [e.payload.action for e in run.list_of(Intervention) if isinstance(e.payload, Intervention)]
    assert [str(action.__struct_config__.tag) for action in actions] == ["roll-back"]
    assert api.recompute_run(run.directory).holds
