"""What Setup is served, what is kept of it, and what its cached product depends on."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from repotrial._core.digest import Digest, digest_bytes
from repotrial.contract import (
    AllowListNetwork,
    FilePin,
    LoadedContract,
    Network,
    ReplayNetwork,
    SetupStep,
    load_contract,
)
from repotrial.environment import ScratchPlace, StepNetwork
from repotrial.environment._installation._mounts import build_outputs
from repotrial.environment._installation._setup import ContractSetup
from repotrial.environment._installation._setup_network import (
    ServedNetwork,
    SetupAccess,
    SetupNetwork,
    find_setup_access,
)
from repotrial.gateway import NetworkAttempt
from repotrial.isolation import find_identity
from repotrial.redaction import SecretRedactor
from repotrial.run import ProxiedSetup
from repotrial.run._setup_network import _convert
from repotrial.syscalls import FloodRecord, NetworkRecord
from repotrial.workspace import BaseCache, SetupAttempt, SetupAttempts, SetupPlace
from support.contracts import write_contract
from support.errors import raises_code
from support.proxies import fetch
from support.workspaces import OWNER, build_request, scratch

ATTEMPT = SetupAttempt(host="a.example", port=443, way="https", method="GET", path="/", verdict="passed")
LISTED = AllowListNetwork(hosts=("a.example",))


class _Nobody:
    """Opens nothing."""

    def open(self) -> ServedNetwork:
        raise AssertionError("nobody asked for it")


def _load(place: Path, *networks: Network, files: tuple[str, ...] = ()) -> LoadedContract:
    directory = write_contract(place / "contract", files=dict.fromkeys(files, "recorded"))
    loaded = load_contract(directory)
    steps = tuple(SetupStep(run="true", network=network) for network in networks)
    pins = tuple(FilePin(path=name, digest=digest_bytes(b"recorded")) for name in files)
    contract = msgspec.structs.replace(loaded.contract, setup=steps)
    return dataclasses.replace(loaded, contract=contract, files=(*loaded.files, *pins))


def _open_access(place: Path, loaded: LoadedContract, **secrets: str) -> SetupAccess:
    with ScratchPlace(place, owner=None) as room:
        return SetupAccess(loaded, _Nobody(), place=room, redactor=SecretRedactor(secrets))


def _digest(loaded: LoadedContract) -> Digest:
    def refuse(_: SetupPlace) -> NoReturn:
        raise AssertionError

    outputs = build_outputs(loaded.contract)
    setup = ContractSetup(loaded, outputs=outputs, facts={}, owner=find_identity(), open_place=refuse)
    return setup.digest


def test_a_contract_without_networked_steps_opens_no_network(tmp_path: Path) -> None:
    with ScratchPlace(tmp_path, owner=None) as room:
        plain, listed = _load(tmp_path, "none"), _load(tmp_path, "none", LISTED)
        assert find_setup_access(plain, _Nobody(), place=room, secrets={}) is None
        assert find_setup_access(listed, None, place=room, secrets={}) is None
        assert find_setup_access(listed, _Nobody(), place=room, secrets={}) is not None


def test_the_product_depends_on_the_policy_and_on_recorded_answers(tmp_path: Path) -> None:
    taped = AllowListNetwork(hosts=("a.example",), recording="tape")
    other = AllowListNetwork(hosts=("b.example",))
    recorded = _load(tmp_path, taped, files=("tape/web.jsonl",))
    again = tuple(
        msgspec.structs.replace(pin, digest=digest_bytes(b"other")) if pin.path.startswith("tape") else pin
        for pin in recorded.files
    )
    cases = [
        _load(tmp_path, "none"),
        _load(tmp_path, LISTED),
        _load(tmp_path, other),
        _load(tmp_path, taped),
        recorded,
        dataclasses.replace(recorded, files=again),
    ]
    assert len({_digest(loaded) for loaded in cases}) == len(cases)


@pytest.mark.parametrize(
    ("network", "files", "way"),
    [
        (LISTED, (), "live"),
        (AllowListNetwork(hosts=("a.example",), recording="tape"), (), "recorded"),
        (AllowListNetwork(hosts=("a.example",), recording="./tape"), ("tape/web.jsonl",), "replayed"),
        (ReplayNetwork(recording="tape"), ("tape/web.jsonl",), "replayed"),
    ],
)
def test_recorded_answers_are_used_where_there_are_some_and_made_where_they_are_wanted(
    tmp_path: Path,
    network: AllowListNetwork | ReplayNetwork,
    files: tuple[str, ...],
    way: str,
) -> None:
    loaded = _load(tmp_path, network, files=files)
    access = _open_access(tmp_path, loaded)
    found = access._find_network(loaded.contract.setup[0], network, tmp_path / "kept")
    assert (found.tape is not None, found.record_to is not None) == (way == "replayed", way == "recorded")
    if files:
        (loaded.directory / files[0]).write_text("forged")
        with raises_code("contract-changed", match=r"tape/web\.jsonl"):
            access._find_network(loaded.contract.setup[0], network, tmp_path / "kept")


def test_attempts_are_bounded_by_kind_and_the_rest_is_counted(tmp_path: Path) -> None:
    access = _open_access(tmp_path, _load(tmp_path, LISTED))
    refused = msgspec.structs.replace(ATTEMPT, verdict="refused")
    for _ in range(2005):
        access._keep(ATTEMPT)
    for _ in range(3):
        access._keep(refused)
    access.watch(FloodRecord(call="connect", call_class="network", first_us=0, last_us=1, count=40))
    access.watch(FloodRecord(call="unshare", call_class="namespace", first_us=0, last_us=1, count=40))
    found = access.collect()
    assert (len(found.kept), found.left_out) == (2003, 45)
    assert [attempt.verdict for attempt in found.kept[-3:]] == ["refused"] * 3


def test_what_is_kept_is_text_without_secrets(tmp_path: Path) -> None:
    access = _open_access(tmp_path, _load(tmp_path, LISTED), KEY="correct-horse-battery")
    access._keep(msgspec.structs.replace(ATTEMPT, path="/\udcff?key=correct-horse-battery"))
    access.watch(
        NetworkRecord(
            call="connect", call_class="network", at_us=0, pid=1, address="[::ffff:1]:80", error="ENETUNREACH"
        )
    )
    first, second = access.collect().kept
    assert first.path.startswith("/\\udcff?key=")
    assert "horse" not in first.path
    assert (second.host, second.port, second.way, second.verdict) == ("[::ffff:1]", 80, "direct", "refused")


def test_an_attempt_of_the_proxy_keeps_every_word() -> None:
    attempt = NetworkAttempt(
        host="a.example",
        port=443,
        way="tunnel",
        method="CONNECT",
        path="",
        verdict="failed",
        reason="nobody",
        status=7,
        sent_bytes=1,
        received_bytes=2,
    )
    found = msgspec.structs.asdict(_convert(attempt))
    assert found == {**msgspec.structs.asdict(attempt), "step": ""}


def test_each_setup_has_an_authority_of_its_own() -> None:
    network: SetupNetwork = ProxiedSetup()
    first, second = network.open(), network.open()
    assert first.certificate == first.certificate != second.certificate
    variables = first.build_variables(4001, "/opt/authority.pem")
    assert variables["HTTPS_PROXY"] == variables["https_proxy"] == "http://127.0.0.1:4001"
    assert variables["PIP_CERT"] == "/opt/authority.pem"


def test_a_step_whose_attempts_cannot_be_put_on_record_does_not_count() -> None:
    def refuse(_: SetupAttempt) -> None:
        raise OSError("the disk is full")

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    network = StepNetwork(policy=LISTED, tape=None, record_to=None)
    served = ProxiedSetup().open()
    with raises_code("setup-network", match="the disk is full"), served.serve(listener, network, refuse):
        assert fetch(port, "http://elsewhere.example/").status == 403
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


class _Fetching:
    """Setup that says it reached somebody, and makes what it is told."""

    digest = digest_bytes(b"fetching")

    def __init__(self, text: str) -> None:
        self._text = text

    def execute(self, place: SetupPlace) -> SetupAttempts:
        (place.tree / "fetched").write_text(self._text)
        (place.outputs / "0").mkdir()
        (place.outputs / "0" / "kept").write_text(self._text)
        return SetupAttempts(kept=(ATTEMPT,), left_out=4)


def test_a_base_remembers_what_setup_reached_and_another_product_is_a_difference() -> None:
    with scratch() as place:
        request = build_request(place, {"a": "1"})
        cache = BaseCache(place / "cache", owner=OWNER)
        found = []
        for text in ("one", "two", "two"):
            with cache.prepare_base(request, setup=_Fetching(text)) as base:
                found.append(base.network)
            with cache.prepare_base(request, setup=_Fetching("never")) as base:
                assert base.network == found[-1]
            cache.prune()
        first, second, third = found
        assert first is not None
        assert second is not None
        assert third is not None
        assert (first.attempts, first.left_out, first.hosts) == ((ATTEMPT,), 4, ("a.example:443",))
        assert first.previous_digest is None
        assert second.previous_digest == first.product_digest
        assert third.previous_digest is None


def test_a_record_that_was_written_over_is_not_believed() -> None:
    with scratch() as place:
        request = build_request(place, {"a": "1"})
        with BaseCache(place / "cache", owner=OWNER).prepare_base(request, setup=_Fetching("x")) as base:
            (base.path.parent / "network").write_text("{}")
            with raises_code("setup-record-unreadable"):
                _ = base.network
