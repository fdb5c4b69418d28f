"""A contract that declares network: named hosts through the proxy, every attempt on record, or replayed."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from repotrial.api import judge_run
from repotrial.environment import InstallationSettings, open_installation
from repotrial.run import ScriptAgent, conduct_run
from repotrial.run._request import NetworkAccess
from repotrial.trace import MonitorAlert, RunPaths, iter_events
from support.greetings import SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

_FETCH = b"""\
python3 - <<'END'
import os, urllib.request
text = urllib.request.urlopen(os.environ["HTTP_PROXY"] and "http://example.org:%d/greeting").read()
open("said.txt", "wb").write(text)
for url in ("http://example.net:%d/", "http://127.0.0.1:%d/greeting"):
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({"http": os.environ["HTTP_PROXY"]})).open(url)
    except Exception as error:
        print(url, error)
    else:
        raise SystemExit("reached " + url)
END
"""


class _Greeter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Names:
    """Every name is this machine."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        del host, port
        return ("127.0.0.1",)


@contextlib.contextmanager
def _serve() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Greeter)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _conduct(place: Path, network: str, script: bytes, runs: str) -> RunPaths:
    text = SAY.replace("[policy]\n", f"[policy]\n{network}\n")
    return _conduct_contract(place, text, script, runs)


def _conduct_contract(place: Path, text: str, script: bytes, runs: str) -> RunPaths:
    contract = place / f"contract-{runs}"
    tape = place / "tape"
    if tape.exists():
        shutil.copytree(tape, contract / "tape")
    loaded = make_say_contract(contract, text)
    settings = InstallationSettings(cache=place / "cache", home=place, variables={}, secrets={})
    with open_installation(loaded, settings) as installation:
        request = build_request(loaded, ScriptAgent(script=script), installation, place / runs)
        access = NetworkAccess(resolver=_Names(), check=lambda _: None)
        ended = conduct_run(*request.with_settings(network=access))
    assert ended.fault is None
    return ended.paths


def _list_verdicts(paths: RunPaths, phase: str = "act") -> list[str]:
    alerts = (event.payload for event in iter_events(paths.trace))
    return [
        a.rule for a in alerts if isinstance(a, MonitorAlert) and a.monitor == "network" and a.phase == phase
    ]


def test_a_listed_host_is_reached_and_others_are_refused_and_a_replay_needs_nobody() -> None:
    require_sandboxes()
    with scratch() as place:
        with _serve() as port:
            script = _FETCH % (port, port, port)
            network = f'network = {{ kind = "allow-list", hosts = ["example.org:{port}"] }}'
            live = _conduct(place, network, script, "live")
        assert _list_verdicts(live) == ["network-passed", "network-refused"]
        assert b"+hello" in live.change.read_bytes()
        (place / "tape").mkdir()
        shutil.copy(live.root / "web.jsonl", place / "tape")
        shutil.copytree(live.blobs, place / "tape" / "blobs")
        replayed = _conduct(place, 'network = { kind = "replay", recording = "tape" }', script, "replayed")
        assert _list_verdicts(replayed)[0] == "network-replayed"
        assert b"+hello" in replayed.change.read_bytes()


_ASK = """\
import os, urllib.request
proxies = urllib.request.ProxyHandler({{"http": os.environ.get("HTTP_PROXY", "http://127.0.0.1:4001")}})
opened = urllib.request.build_opener(proxies)
said = opened.open("http://example.org:{port}/greeting").read()
assert said == open("said.txt", "rb").read(), said
try:
    opened.open("http://example.net:{port}/")
except OSError:
    raise SystemExit(0)
raise SystemExit("reached a host that no list names")
"""


def _ask_in_check(network: str, port: int, *, check_id: str = "said") -> str:
    """The contract, with one of its checks asking a host for the greeting."""
    ask = f"python3 -c '{_ASK.format(port=port)}'"
    head, name, rest = SAY.partition(f'id = "{check_id}"\n')
    before, _, after = rest.partition('run = "')
    return head + name + f'{network}\n{before}run = """\n{ask}"""\n' + after.partition("\n")[2]


def test_a_check_reaches_the_hosts_of_its_own_list_on_record_and_replays_without_them() -> None:
    require_sandboxes()
    with scratch() as place:
        with _serve() as port:
            allowed = f'network = {{ kind = "allow-list", hosts = ["example.org:{port}"] }}'
            live = _conduct_contract(place, _ask_in_check(allowed, port), b"echo hello > said.txt", "live")
        assert judge_run(live.root).is_success
        assert _list_verdicts(live, "accept") == ["network-passed", "network-refused"]
        assert _list_verdicts(live) == [], "the agent has none of it"
        shutil.copytree(live.acceptance / "said" / "network-1", place / "tape")
        replay = 'network = { kind = "replay", recording = "tape" }'
        replayed = _conduct_contract(place, _ask_in_check(replay, port), b"echo hello > said.txt", "replayed")
        assert judge_run(replayed.root).is_success
        assert _list_verdicts(replayed, "accept")[0] == "network-replayed"


def test_a_check_without_a_list_reaches_nothing_though_another_check_may() -> None:
    """The list of one check, and that of the agent, are no list of another."""
    require_sandboxes()
    with scratch() as place, _serve() as port:
        allowed = f'network = {{ kind = "allow-list", hosts = ["example.org:{port}"] }}'
        text = _ask_in_check("", port, check_id="kept").replace("[policy]\n", f"[policy]\n{allowed}\n")
        text = text.replace('id = "said"\n', f'id = "said"\n{allowed}\n')
        ended = _conduct_contract(place, text, b"echo hello > said.txt", "live")
        assert not judge_run(ended.root).is_success
        assert _list_verdicts(ended, "accept") == []
