"""A contract that declares network: named hosts through the proxy, every attempt on record, or replayed."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
    contract = place / f"contract-{runs}"
    tape = place / "tape"
    if tape.exists():
        shutil.copytree(tape, contract / "tape")
    loaded = make_say_contract(contract, SAY.replace("[policy]\n", f"[policy]\n{network}\n"))
    settings = InstallationSettings(cache=place / "cache", home=place, variables={}, secrets={})
    with open_installation(loaded, settings) as installation:
        request = build_request(loaded, ScriptAgent(script=script), installation, place / runs)
        access = NetworkAccess(resolver=_Names(), check=lambda _: None)
        ended = conduct_run(*request.with_settings(network=access))
    assert ended.fault is None
    return ended.paths


def _list_verdicts(paths: RunPaths) -> list[str]:
    alerts = (event.payload for event in iter_events(paths.trace))
    return [a.rule for a in alerts if isinstance(a, MonitorAlert) and a.monitor == "network"]


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
