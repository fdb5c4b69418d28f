"""Setup steps with network that want more of it than their contract declares."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from aiohttp import web

from repotrial.run import ProxiedSetup
from repotrial.run._request import NetworkAccess
from repotrial.workspace import SetupAttempt, SetupNetworkRecord
from support.errors import raises_code
from support.harness import list_host_processes
from support.installations import Trial, open_trial
from support.providers import Provider, open_provider
from support.proxies import LOOPBACK, FakeResolver, allow_loopback

TOOLS = """\
import json, os, socket, sys, time, urllib.error, urllib.request

# A step may set its variables as it likes: the loopback address goes to the proxy, too.
os.environ.pop("NO_PROXY", None)
os.environ.pop("no_proxy", None)

def ask(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:4001"}))
    try:
        return opener.open(url, timeout=300).status
    except urllib.error.HTTPError as error:
        return error.code

def connect(target):
    with socket.create_connection(("127.0.0.1", 4001), 300) as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".encode())
        return int(client.recv(4096).split(b" ")[1])

def reach(host, port):
    try:
        socket.create_connection((host, port), 300).close()
        return "reached"
    except OSError as error:
        return type(error).__name__

def tell(**found):
    open("found.json", "w").write(json.dumps(found))
"""

ATTEMPTS = """\
from tools import *
port = int(sys.argv[1])
tell(
    good=ask(f"http://origin.example:{port}/good"),
    other=ask(f"http://other.example:{port}/"),
    other_tunnel=connect(f"other.example:{port}"),
    host_itself=ask(f"http://127.0.0.1:{port}/"),
    host_itself_tunnel=connect(f"127.0.0.1:{port}"),
    raw_address=ask(f"http://198.51.100.7:{port}/"),
    raw_address_tunnel=connect("198.51.100.7:443"),
    other_port=ask("http://origin.example:9/"),
    other_port_tunnel=connect("origin.example:22"),
    private=ask(f"http://private.example:{port}/"),
    link_local=ask(f"http://metadata.example:{port}/"),
    mixed=ask(f"http://mixed.example:{port}/"),
    rebound=[ask(f"http://rebinding.example:{port}/{turn}") for turn in ("first", "second")],
    direct=reach("198.51.100.7", port),
    direct_loopback=reach("127.0.0.1", port),
)
"""


async def _say(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="reached")


def _step(script: str, network: str, *, name: str = "harm") -> str:
    return f"[[setup]]\nid = '{name}'\nrun = '''\n{script}\n'''\ntimeout_seconds = 240\nnetwork = {network}\n"


def _allow(*hosts: str) -> str:
    return f"{{ kind = 'allow-list', hosts = {json.dumps(hosts)} }}"


def _open_network(resolver: FakeResolver) -> ProxiedSetup:
    return ProxiedSetup(NetworkAccess(resolver=resolver, check=allow_loopback))


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What a step full of attempts saw, what was put on record, and what the host that it wanted heard."""

    found: dict[str, object]
    record: SetupNetworkRecord
    origin: Provider
    resolver: FakeResolver
    is_supervised: bool

    def find(self, host: str) -> list[SetupAttempt]:
        return [attempt for attempt in self.record.attempts if attempt.host == host]


@pytest.fixture(scope="module")
def harm() -> Iterator[Harm]:
    resolver = FakeResolver(
        origin_example=[LOOPBACK],
        other_example=[LOOPBACK],
        private_example=["10.1.2.3"],
        metadata_example=["169.254.169.254"],
        mixed_example=[LOOPBACK, "192.168.1.1"],
        rebinding_example=lambda asked: [LOOPBACK] if asked == 1 else ["127.0.0.2"],
    )
    with open_provider(_say) as origin:
        names = ("origin", "private", "metadata", "mixed", "rebinding")
        setup = _step(
            f"python3 attempts.py {origin.port}", _allow(*(f"{name}.example:{origin.port}" for name in names))
        )
        repo = {"tools.py": TOOLS, "attempts.py": ATTEMPTS}
        with (
            open_trial(setup=setup, repo=repo) as trial,
            trial.open(network=_open_network(resolver)) as installation,
        ):
            record = installation.setup_network
            assert record is not None
            found = json.loads((installation.base.path / "found.json").read_bytes())
            yield Harm(
                found=found,
                record=record,
                origin=origin,
                resolver=resolver,
                is_supervised=installation.capabilities.syscall_audit == "notify",
            )


def test_only_the_listed_host_hears_of_a_step(harm: Harm) -> None:
    assert harm.found["good"] == 200
    assert [asked.target for asked in harm.origin.asked] == ["/good", "/first"]
    verdicts = sorted(attempt.verdict for attempt in harm.find("origin.example"))
    assert verdicts == ["passed", "refused", "refused"]
    assert {attempt.step for attempt in harm.record.attempts} == {"harm"}


def test_a_host_that_is_not_listed_is_not_reached(harm: Harm) -> None:
    assert (harm.found["other"], harm.found["other_tunnel"]) == (403, 403)
    assert [attempt.verdict for attempt in harm.find("other.example")] == ["refused", "refused"]
    assert "other.example" not in harm.resolver.asked


def test_the_host_itself_is_not_reached_by_its_loopback_address(harm: Harm) -> None:
    assert (harm.found["host_itself"], harm.found["host_itself_tunnel"]) == (403, 403)
    assert [attempt.verdict for attempt in harm.find("127.0.0.1")] == ["refused", "refused"]


def test_a_raw_address_is_no_way_around_the_names(harm: Harm) -> None:
    assert (harm.found["raw_address"], harm.found["raw_address_tunnel"]) == (403, 403)


def test_another_port_of_a_listed_host_is_not_reached(harm: Harm) -> None:
    assert (harm.found["other_port"], harm.found["other_port_tunnel"]) == (403, 403)
    assert {attempt.port for attempt in harm.find("origin.example")} == {harm.origin.port, 9, 22}


@pytest.mark.parametrize(
    ("name", "host"), [("private", "private"), ("link_local", "metadata"), ("mixed", "mixed")]
)
def test_a_listed_name_with_an_address_of_the_hosts_networks_is_not_reached(
    harm: Harm, name: str, host: str
) -> None:
    assert harm.found[name] == 403
    (attempt,) = harm.find(f"{host}.example")
    assert attempt.verdict == "refused"


def test_a_name_that_changes_its_address_is_resolved_once_for_each_request(harm: Harm) -> None:
    assert harm.found["rebound"] == [200, 403]
    assert harm.resolver.asked.count("rebinding.example") == 2


def test_a_socket_past_the_proxy_leads_nowhere_and_is_on_record(harm: Harm) -> None:
    assert harm.found["direct"] != "reached"
    assert harm.found["direct_loopback"] == "ConnectionRefusedError"
    direct = [attempt for attempt in harm.record.attempts if attempt.way == "direct"]
    expected = [("198.51.100.7", harm.origin.port)] if harm.is_supervised else []
    assert [(attempt.host, attempt.port) for attempt in direct] == expected


def test_addresses_of_the_host_are_not_reached_even_where_the_contract_lists_them() -> None:
    script = "from tools import *; port = sys.argv[1]\n"
    script += "tell(found=[ask(f'http://{host}:{port}/') for host in ('127.0.0.1', 'localhost')])"
    with open_provider(_say) as origin:
        hosts = (f"127.0.0.1:{origin.port}", f"localhost:{origin.port}")
        setup = _step(f"python3 attempts.py {origin.port}", _allow(*hosts))
        with (
            open_trial(setup=setup, repo={"tools.py": TOOLS, "attempts.py": script}) as trial,
            trial.open(network=ProxiedSetup()) as installation,
        ):
            assert json.loads((installation.base.path / "found.json").read_bytes()) == {"found": [403, 403]}
    assert origin.asked == []


DAEMON = """\
from tools import *
port, marker = sys.argv[1:3]
silent = socket.create_connection(("127.0.0.1", 4001), 300)
busy = socket.create_connection(("127.0.0.1", 4001), 300)
busy.sendall(f"GET http://origin.example:{port}/endless HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".encode())
assert busy.recv(1)
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/later"):
    time.sleep(0.01)
def say_late(client):
    try:
        client.sendall(f"GET http://origin.example:{port}/late HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n".encode())
        return len(client.recv(100))
    except OSError:
        return 0
def drain(client):
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        pass
    return "ended"
tell(silent=say_late(silent), busy=drain(busy), again=reach("127.0.0.1", 4001))
open("/tmp/told", "w").close()
time.sleep(100000)
"""


def test_a_daemon_has_no_network_after_its_step_and_no_life_after_setup() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 1000)
                await asyncio.sleep(0.02)
        return response

    marker = "setup-daemon-58213"
    with open_provider(answer) as origin:
        first = f"setsid -f python3 daemon.py {origin.port} {marker} < /dev/null > /dev/null 2>&1\n"
        first += "until [ -e /tmp/ready ]; do sleep 0.01; done"
        second = "touch /tmp/later; until [ -e /tmp/told ]; do sleep 0.01; done"
        setup = _step(first, _allow(f"origin.example:{origin.port}")) + _step(second, "'none'", name="later")
        resolver = FakeResolver(origin_example=[LOOPBACK])
        with (
            open_trial(setup=setup, repo={"tools.py": TOOLS, "daemon.py": DAEMON}) as trial,
            trial.open(network=_open_network(resolver)) as installation,
        ):
            found = json.loads((installation.base.path / "found.json").read_bytes())
            assert list_host_processes([marker]) == []
        assert [asked.target for asked in origin.asked] == ["/endless"]
    assert found == {"silent": 0, "busy": "ended", "again": "ConnectionRefusedError"}


def test_a_program_that_takes_the_port_first_gets_nothing_but_a_failed_setup() -> None:
    squat = 'import socket, time; s = socket.create_server(("127.0.0.1", 4001)); open("/tmp/up", "w"); '
    script = (
        "setsid -f python3 squat.py < /dev/null > /dev/null 2>&1\nuntil [ -e /tmp/up ]; do sleep 0.01; done"
    )
    setup = _step(script, "'none'", name="squat") + _step("true", _allow("origin.example"), name="fetch")
    repo = {"squat.py": f"{squat}time.sleep(100000)"}
    with open_trial(setup=setup, repo=repo) as trial:
        _fail(trial, "fetch: expected port 4001 inside to be free")


def _fail(trial: Trial, *words: str) -> None:
    with raises_code("setup-failed") as raised:
        trial.open(network=_open_network(FakeResolver(origin_example=[LOOPBACK])))
    assert all(word in str(raised.value) for word in words), raised.value
    assert trial.list_leftovers() == []
    assert [*trial.cache.glob("bases/entries/*")] == []


@pytest.mark.parametrize(("target", "limit"), [("/workspace/huge", "disk"), ("-", "output")])
def test_a_download_without_end_ends_at_the_contracts_limits(target: str, limit: str) -> None:
    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(bytes(2**20))
                await asyncio.sleep(0.01)
        return response

    fetch = "import shutil, sys, urllib.request\n"
    fetch += "target = sys.stdout.buffer if sys.argv[2] == '-' else open(sys.argv[2], 'wb')\n"
    fetch += "shutil.copyfileobj(urllib.request.urlopen(sys.argv[1]), target, 2**20)\n"
    with open_provider(flood) as origin:
        url = f"http://origin.example:{origin.port}/"
        setup = _step(f"python3 fetch.py {url} {target}", _allow(f"origin.example:{origin.port}"))
        with open_trial(setup=setup, repo={"fetch.py": fetch}) as trial:
            _fail(trial, f"ended by the limit on {limit}")


def test_a_step_that_fails_for_want_of_a_host_names_it() -> None:
    script = "from tools import *; sys.exit(ask('http://other.example/') == 403)"
    setup = _step("python3 attempts.py", _allow("origin.example"))
    with open_trial(setup=setup, repo={"tools.py": TOOLS, "attempts.py": script}) as trial:
        _fail(trial, "harm: expected exit code 0", "other.example:80 is not on the allow-list")
