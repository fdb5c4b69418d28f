"""Harnesses that are killed while an agent asks its model: money stays counted, nothing stays frozen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web

from repotrial.cost import EnvelopeState, load_ledger_state
from repotrial.isolation._resources._cgroups import find_cgroup_site
from repotrial.policy import read_thresholds
from support.command_line import start
from support.leftovers import await_only, foster_orphans, list_descendants, list_own_groups
from support.model_agents import TINY, finish, shell, write_script
from support.providers import open_provider
from support.trials import Court, open_court
from support.waiting import wait_until

_PRICES = """\
action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:canned-model:input,1M-tokens,0,free for tests,,
model:canned-model:output,1k-tokens,1,,,4096
"""
_BOUND = Decimal("0.512")
"""What a request of the agent's may take."""


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court, foster_orphans():
        yield court


@contextlib.contextmanager
def _harness(court: Court, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start(
        *court.build_words(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"XDG_CONFIG_HOME": str(court.place / "config")},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _kill(process: subprocess.Popen[bytes], known: set[int]) -> None:
    """As the machine's memory guard or an operator would; whatever it had started ends with it."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert await_only(known) == []


def _load_total(court: Court) -> EnvelopeState:
    state = load_ledger_state(court.runs / "ledger.jsonl")
    return next(envelope for envelope in state.envelopes if envelope.name == "total")


def test_what_a_killed_harness_held_is_charged_at_the_next_start(court: Court) -> None:
    is_open = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        if len(provider.asked) == 1:
            await is_open.wait()  # for ever: whoever asked is dead by then
        return web.json_response(
            {
                "model": "canned-model",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
            }
        )

    prices = court.write("prices.csv", _PRICES)
    with open_provider(answer) as provider:
        described = court.write("provider.toml", f'base_url = "http://127.0.0.1:{provider.port}"\n')
        words: list[str | Path] = [court.write_contract(), "--agent", f"agent:{TINY}"]
        # The first that the provider is asked is the agent's own request: that one is held.
        words += ["--upstream", f"provider:{described}", "--skip-upstream-check"]
        words += ["--prices", prices, "--total-budget", "1.1"]
        known = set(list_descendants(os.getpid()))
        with _harness(court, *words) as process:
            assert wait_until(lambda: provider.asked)
            _kill(process, known)
        total = _load_total(court)
        assert (Decimal(total.held), total.spent, total.assumed) == (_BOUND, "0", "0")
        said = court.execute(*words)
    assert len(provider.asked) == 2
    assert "budget total: 0.517 of 1.1 usd spent" in said
    assert "0.512 of it assumed" in said
    total = _load_total(court)
    assert total.held == "0"
    assert Decimal(total.assumed) == _BOUND, "the provider may have charged for what was in flight"
    assert Decimal(total.spent) == _BOUND + Decimal("0.005")
    assert not list(court.runs.glob("ledger.jsonl.holders/*"))


def test_a_harness_killed_while_its_agent_is_paused_leaves_nothing_frozen(court: Court) -> None:
    published = read_thresholds().decode()
    strict = court.write("thresholds.toml", published.replace("pause_after = 0", "pause_after = 1"))
    script = write_script(court, [shell("curl -s http://example.org/ || true"), finish()])
    words: list[str | Path] = [court.write_contract(), "--agent", f"agent:{TINY}"]
    words += ["--upstream", f"script:{script}"]
    known = set(list_descendants(os.getpid()))
    with _harness(court, *words, "--thresholds", strict) as process:
        assert wait_until(lambda: list(court.runs.glob(".inbox/*/question.json")))
        pid = process.pid
        # Before it is killed: any harness that starts after that may be quicker than ours.
        assert list_own_groups(pid) or not find_cgroup_site().directories
        process.send_signal(signal.SIGKILL)
        process.communicate()
    court.execute(*words)
    assert await_only(known) == []
    assert wait_until(lambda: not list_own_groups(pid)), list_own_groups(pid)
