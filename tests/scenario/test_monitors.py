"""What monitors write down while an agent acts: refused calls by what they mean, and what was used."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import RunEnded, ScriptAgent, _resources, conduct_run
from repotrial.score import build_score_card, load_evidence
from repotrial.trace import BlobStore, MonitorAlert, RunPaths, Signal, Termination, iter_events
from support.greetings import SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

_CALL = """\
python3 -c 'import ctypes; library = ctypes.CDLL(None, use_errno=True)
for arguments in {calls}: print(library.syscall(*arguments), ctypes.get_errno())'
echo hello > said.txt
"""
_IO_URING_SETUP = (425, 1, 0)


class Bench:
    """One contract, installed once."""

    def __init__(self, installation: Installation, runs: RunPaths) -> None:
        self._installation = installation
        self._runs = runs.root

    def conduct(self, script: str) -> RunEnded:
        agent = ScriptAgent(script=script.encode())
        return conduct_run(*build_request(self._installation.loaded, agent, self._installation, self._runs))


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    require_sandboxes()
    with scratch() as root:
        loaded = make_say_contract(root / "contract", SAY)
        settings = InstallationSettings(cache=root / "cache", home=root, variables={})
        with open_installation(loaded, settings) as installation:
            if installation.capabilities.syscall_audit != "notify":
                pytest.skip("no supervisor for system calls here")
            yield Bench(installation, RunPaths(root / "runs"))


def _list_alerts(run: RunEnded, monitor: str) -> list[MonitorAlert]:
    alerts = [event.payload for event in iter_events(run.paths.trace)]
    return [alert for alert in alerts if isinstance(alert, MonitorAlert) and alert.monitor == monitor]


def _find_termination(run: RunEnded) -> dict[str, Signal]:
    (found,) = (e.payload for e in iter_events(run.paths.trace) if isinstance(e.payload, Termination))
    return {signal.name: signal for signal in found.signals}


def test_a_program_that_probes_io_uring_is_refused_it_and_keeps_the_fourth_gate(bench: Bench) -> None:
    run = bench.conduct(_CALL.format(calls=[_IO_URING_SETUP]))
    alerts = [(alert.rule, alert.severity) for alert in _list_alerts(run, "system-calls")]
    assert alerts == [("unavailable-call", "info")]
    card = build_score_card(load_evidence(run.paths.root))
    assert [gate.outcome for gate in card.gates] == ["passed"] * 4


def test_a_call_that_no_ordinary_program_makes_still_closes_the_fourth_gate(bench: Bench) -> None:
    run = bench.conduct("unshare --user true || true\necho hello > said.txt\n")
    alerts = {(alert.rule, alert.severity) for alert in _list_alerts(run, "system-calls")}
    assert alerts == {("prohibited-call", "warning")}
    assert {alert.stage for alert in _list_alerts(run, "system-calls")} == {"test"}
    card = build_score_card(load_evidence(run.paths.root))
    assert [gate.outcome for gate in card.gates] == ["passed", "passed", "passed", "failed"]


def test_what_an_agent_uses_is_sampled_at_a_stated_rate(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_resources, "_INTERVAL_MS", 10)
    run = bench.conduct("head -c 200000 /dev/zero > zeros\nsleep 2\nrm zeros\necho hello > said.txt\n")
    (alert,) = _list_alerts(run, "resources")
    assert (alert.rule, alert.severity, alert.phase) == ("samples", "info", "act")
    values = {signal.name: signal.value for signal in alert.signals}
    assert values["interval_ms"] == 10
    assert alert.segment is not None
    series = msgspec.json.decode(alert.segment.body.load(BlobStore(run.paths.blobs)))
    assert series["plan"]["interval_ms"] == 10
    assert series["columns"] == ["t_us", "cpu_us", "memory_bytes", "processes", "disk_bytes"]
    assert 1 <= len(series["rows"]) <= int(values["samples"])
    assert int(values["peak_memory_bytes"]) >= max(row[2] for row in series["rows"]) > 0
    card = build_score_card(load_evidence(run.paths.root))
    assert [gate.outcome for gate in card.gates] == ["passed"] * 4


def test_a_run_shorter_than_the_interval_has_no_samples_but_states_what_it_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_resources, "_INTERVAL_MS", 3_600_000)
    run = bench.conduct("echo hello > said.txt\n")
    assert _list_alerts(run, "resources") == []
    signals = _find_termination(run)
    assert signals["cpu_us"].value >= 0  # type: ignore[operator]  # a count
    assert build_score_card(load_evidence(run.paths.root)).cost.cpu_us == signals["cpu_us"].value
