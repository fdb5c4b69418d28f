"""Setup with network: named hosts through the proxy, on record with the product, kept, or replayed (C12)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest
from aiohttp import web

from repotrial._core.digest import digest_bytes
from repotrial.api import MachineSettings, execute_in_contract
from repotrial.authoring import lock_contract
from repotrial.authoring._certify._items import describe_setup
from repotrial.environment import InstallationSettings, open_installation
from repotrial.gateway._proxy._tape import TapeWriter
from repotrial.machine import list_kept, prune_kept
from repotrial.run import NoopAgent, ProxiedSetup, Replay, conduct_run, replay_run
from repotrial.run._request import NetworkAccess
from repotrial.trace import BlobStore, MonitorAlert, RunPaths, iter_events, load_manifest
from repotrial.wire import HttpAnswer
from support.greetings import SAY, Request, build_request, make_say_contract
from support.harness import require_sandboxes
from support.installations import open_trial, shell
from support.providers import open_provider
from support.proxies import LOOPBACK, FakeResolver, allow_loopback
from support.workspaces import scratch

FETCH = """\
[[setup]]
id = "fetch"
run = '''
python3 - <<'END'
import urllib.request
data = urllib.request.urlopen("http://origin.example:{port}/data?token=" + {token}).read()
open("data.txt", "wb").write(data)
END
'''
outputs = ["data.txt"]
network = {{ kind = "allow-list", hosts = ["origin.example:{port}"]{more} }}

[[setup]]
id = "look"
run = '''
env > env.txt
(exec 3<> /dev/tcp/127.0.0.1/4001) 2> /dev/null && echo open > port.txt || echo closed > port.txt
'''
"""


def _open_network() -> ProxiedSetup:
    resolver = FakeResolver(origin_example=[LOOPBACK])
    return ProxiedSetup(NetworkAccess(resolver=resolver, check=allow_loopback))


class _Counter:
    """Says another number each time."""

    def __init__(self, *texts: str) -> None:
        self._texts = iter(texts)

    async def __call__(self, _: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=next(self._texts))


def test_what_setup_fetches_is_kept_with_its_record_and_only_that_step_has_network() -> None:
    environment = """
[[environment.secrets]]
name = "TOKEN"
reason = "downloads"
phases = ["setup"]
"""
    with open_provider(_Counter("first")) as origin:
        setup = FETCH.format(port=origin.port, token='__import__("os").environ["TOKEN"]', more="")
        with open_trial(environment, setup) as trial:
            secrets = {"TOKEN": "zanzibar-4711-mistral"}
            with trial.open(secrets=secrets, network=_open_network()) as installation:
                made = installation.setup_network
            # The product comes from the cache, and says what it was made from.
            with trial.open(secrets=secrets, network=_open_network()) as installation:
                found = installation.setup_network
                tree = installation.base.path
                assert (tree / "data.txt").read_text() == "first"
                assert (tree / "port.txt").read_text() == "closed\n"
                assert "PROXY" not in (tree / "env.txt").read_text().upper()
                assert "authority.pem" not in (tree / "env.txt").read_text()
                looked = shell(installation, "env; (exec 3<> /dev/tcp/127.0.0.1/4001)")
            assert trial.list_leftovers() == []
            entry = next(trial.cache.glob("bases/entries/*"))
            assert b"zanzibar" not in (entry / "network").read_bytes()
    assert "zanzibar" in origin.asked[0].target
    assert len(origin.asked) == 1
    assert found is not None
    assert found == made
    (attempt,) = found.attempts
    assert (attempt.step, attempt.host, attempt.port) == ("fetch", "origin.example", origin.port)
    assert (attempt.verdict, attempt.status, attempt.received_bytes) == ("passed", 200, 5)
    assert attempt.path.startswith("/data?token=")
    assert found.hosts == (f"origin.example:{origin.port}",)
    assert b"PROXY" not in looked.stdout.prefix.upper()
    assert b"refused" in looked.stderr.prefix


def test_a_product_that_comes_out_differently_is_told_as_a_difference() -> None:
    with open_provider(_Counter("one", "two", "two")) as origin:
        setup = FETCH.format(port=origin.port, token='""', more="")
        records = []
        with open_trial(setup=setup) as trial:
            for _ in range(3):
                with trial.open(network=_open_network()) as installation:
                    records.append(installation.setup_network)
                assert [item.kind for item in prune_kept(trial.cache)] == ["workspace"]
    first, second, third = records
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.previous_digest is None
    assert second.previous_digest == first.product_digest != second.product_digest
    # The history and its times are not part of it: the same files are the same product.
    assert third.product_digest == second.product_digest
    assert third.previous_digest is None
    item = describe_setup(second)
    assert item.outcome == "note"
    assert second.product_digest in item.message
    assert any(first.product_digest in finding for finding in item.findings)


def test_recorded_answers_make_the_same_product_without_anybody() -> None:
    with open_provider(_Counter("kept")) as origin:
        setup = FETCH.format(port=origin.port, token='""', more=', recording = "tape"')
        with open_trial(setup=setup) as trial:
            with trial.open(network=_open_network()) as installation:
                live = installation.setup_network
                recorded = installation.base.recordings / "1"
                (kept,) = (item for item in list_kept(trial.cache) if item.kind == "workspace")
                assert str(installation.base.recordings) in kept.content
                shutil.copytree(recorded, trial.directory / "tape")
            assert lock_contract(trial.directory).lock.replay == "replayable"
            with trial.open(network=_open_network()) as installation:
                replayed = installation.setup_network
                assert not installation.base.recordings.exists()
    assert len(origin.asked) == 1
    assert live is not None
    assert replayed is not None
    assert [attempt.verdict for attempt in replayed.attempts] == ["replayed"]
    assert replayed.product_digest == live.product_digest
    assert replayed.hosts == live.hosts


def _list_alerts(paths: RunPaths) -> dict[str, str]:
    """By their rules, what alerts about the network of Setup say."""
    blobs = BlobStore(paths.blobs)
    alerts = (event.payload for event in iter_events(paths.trace))
    return {
        alert.rule: alert.segment.body.load(blobs).decode()
        for alert in alerts
        if isinstance(alert, MonitorAlert) and alert.monitor == "setup-network" and alert.segment
    }


def _replay(place: Path, run: RunPaths, request: Request) -> Replay:
    settings = request.with_settings(runs=place / "replays").settings
    return replay_run(run, request.plan.loaded, installation=request.open_installation(), settings=settings)


def test_every_run_tells_what_its_tree_was_made_from_and_a_replay_tells_the_difference() -> None:
    require_sandboxes()
    with scratch() as place, open_provider(_Counter("old", "new")) as origin:
        setup = FETCH.format(port=origin.port, token='""', more="")
        loaded = make_say_contract(place / "contract", SAY.replace("[[checks]]", f"{setup}\n[[checks]]", 1))
        settings = InstallationSettings(
            cache=place / "cache", home=place, variables={}, network=_open_network()
        )
        with open_installation(loaded, settings) as installation:
            first = conduct_run(*build_request(loaded, NoopAgent(), installation, place / "one")).paths
            second = conduct_run(*build_request(loaded, NoopAgent(), installation, place / "two")).paths
        prune_kept(place / "cache")
        with open_installation(loaded, settings) as installation:
            request = build_request(loaded, NoopAgent(), installation, place / "three")
            third = conduct_run(*request).paths
            replay = _replay(place, first, request)
        manifests = [load_manifest(paths.manifest) for paths in (first, second, third)]
        told, told_later = _list_alerts(second), _list_alerts(third)
    product = manifests[0].dependencies.setup
    assert product is not None
    assert product.hosts == (f"origin.example:{origin.port}",)
    assert manifests[0].list_differences(manifests[1]) == []
    different = [found.field for found in manifests[0].list_differences(manifests[2])]
    # Other files are another product, and another tree for the agent.
    assert different == ["dependencies.setup.product_digest", "workspace.digest"]
    assert list(told) == ["setup-network-passed", "setup-product"]
    assert f"origin.example:{origin.port}/data" in told["setup-network-passed"]
    assert product.product_digest in told["setup-product"]
    assert list(told_later) == ["setup-network-passed", "setup-product", "setup-product-changed"]
    found = [(item.what, item.recorded) for item in replay.divergences]
    assert found == [("the product of Setup", product.product_digest)]


def test_commands_set_contracts_up_with_the_network_that_these_declare() -> None:
    with open_trial() as trial:
        tape = TapeWriter(trial.directory / "tape")
        answer = HttpAnswer(status=200, headers={}, body=b"from the tape")
        url = "http://origin.example:1234/data?token="
        tape.append(method="GET", url=url, request_digest=digest_bytes(b""), answer=answer)
        tape.close()
        setup = FETCH.format(port=1234, token='""', more=', recording = "tape"')
        trial.write(
            setup=setup.replace("allow-list", "replay").replace('hosts = ["origin.example:1234"], ', "")
        )
        machine = MachineSettings(cache=trial.cache, home=trial.place, variables={})
        argv = ("cat", "data.txt", "port.txt")
        result = execute_in_contract(trial.directory, argv, machine=machine, timeout_seconds=300)
    assert result.stdout.prefix == b"from the tapeclosed\n"


@pytest.mark.parametrize("phase", ["act", "accept"])
def test_the_sandboxes_of_agent_and_acceptance_reach_nothing(phase: Literal["act", "accept"]) -> None:
    with open_provider(_Counter("only")) as origin:
        setup = FETCH.format(port=origin.port, token='""', more="")
        script = (
            f"for port in {origin.port} 4001; do (exec 3<> /dev/tcp/127.0.0.1/$port) && echo reached; done"
        )
        with open_trial(setup=setup) as trial, trial.open(network=_open_network()) as installation:
            result = shell(installation, script, phase=phase)
    assert result.stdout.prefix == b""
    assert result.stderr.prefix.count(b"refused") >= 2
    assert len(origin.asked) == 1
