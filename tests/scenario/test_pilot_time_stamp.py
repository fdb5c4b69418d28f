"""A registration stamped by an authority: a local one, as RFC 3161 has it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.errors import EvidenceError
from support.command_line import call
from support.pilots import build_machine, write_pilot

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None or importlib.util.find_spec("rfc3161_client") is None,
    reason="needs openssl and the extra `timestamp`",
)
_CONFIG = """\
[tsa]
default_tsa = tsa_1
[tsa_1]
serial = {place}/serial
crypto_device = builtin
signer_cert = {place}/tsa.pem
certs = {place}/tsa.pem
signer_key = {place}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


def _execute(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("authority")
    subject = ("-newkey", "rsa:2048", "-nodes", "-subj")
    usage = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    _execute(
        "req", "-x509", *subject, "/CN=root", "-days", "9", *usage,
        "-keyout", place / "root.key", "-out", place / "root.pem",
    )  # fmt: skip
    _execute("req", *subject, "/CN=tsa", "-keyout", place / "tsa.key", "-out", place / "tsa.csr")
    (place / "usage").write_text(
        "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        "extendedKeyUsage=critical,timeStamping\n"
    )
    _execute(
        "x509", "-req", "-in", place / "tsa.csr", "-CA", place / "root.pem", "-CAkey", place / "root.key",
        "-CAcreateserial", "-days", "9", "-extfile", place / "usage", "-out", place / "tsa.pem",
    )  # fmt: skip
    (place / "serial").write_text("01\n")
    (place / "ts.cnf").write_text(_CONFIG.format(place=place))
    return place


def _stamp(authority: Path, request: Path, out: Path) -> Path:
    _execute(
        "ts",
        "-reply",
        "-config",
        authority / "ts.cnf",
        "-section",
        "tsa_1",
        "-queryfile",
        request,
        "-out",
        out,
    )
    return out


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    directory = write_pilot(tmp_path)
    machine = build_machine(tmp_path)
    api.plan_pilot(directory, machine)
    key = tmp_path / "key.pem"
    api.freeze_pilot(directory, machine, key_file=key, conducting=[], reason=None, removed={})
    return directory


def test_a_stamp_of_the_registration_is_taken_kept_and_shown(
    capsys: pytest.CaptureFixture[str], frozen: Path, authority: Path, tmp_path: Path
) -> None:
    response = _stamp(authority, frozen / "registration.tsq", tmp_path / "answer.tsr")
    options = ("--time-stamp", response, "--authority", authority / "root.pem")
    taken = call(capsys, "pilot", "freeze", frozen, *options)
    assert (taken.status, taken.out.startswith("stamped at 20")) == (0, True), taken.err
    status = api.show_pilot(frozen, build_machine(tmp_path))
    assert (status.findings, status.time_stamp.startswith("stamped at 20")) == ((), True)


def test_a_stamp_of_other_bytes_or_of_another_authority_is_refused(
    frozen: Path, authority: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("another registration")
    _execute("ts", "-query", "-data", other, "-sha256", "-cert", "-out", tmp_path / "other.tsq")
    foreign = _stamp(authority, tmp_path / "other.tsq", tmp_path / "other.tsr")
    own = _stamp(authority, frozen / "registration.tsq", tmp_path / "own.tsr")
    for response, root in ((foreign, "root.pem"), (own, "tsa.pem"), (other, "root.pem")):
        with pytest.raises(EvidenceError, match="expected a stamp over the registration"):
            api.stamp_registration(frozen, response=response, authority=authority / root)
    assert not (frozen / "registration.tsr").exists()


def test_a_stamp_put_beside_another_registration_is_named(
    frozen: Path, authority: Path, tmp_path: Path
) -> None:
    response = _stamp(authority, frozen / "registration.tsq", tmp_path / "answer.tsr")
    api.stamp_registration(frozen, response=response, authority=authority / "root.pem")
    (frozen / "registrations" / "1.json").unlink()
    machine = build_machine(tmp_path)
    key = tmp_path / "key.pem"
    api.freeze_pilot(frozen, machine, key_file=key, conducting=[], reason=None, removed={})
    findings = api.show_pilot(frozen, machine).findings
    assert ["time-stamp-forged" in finding for finding in findings] == [True]
