"""Originals of redacted texts: encrypted at write, opened on record by a recipient alone, shredded (P27)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyrage import encrypt, x25519

from repotrial._core.digest import digest_bytes
from repotrial.archive import OriginalsRequest, read_access_log
from repotrial.redaction import AgeIdentity, CustodyPolicy, SecretRedactor, Vault
from repotrial.signing import PublicKey, SigningKey
from repotrial.trace import (
    AgentTranscript,
    Holds,
    RunPaths,
    check_run,
    iter_events,
    seal_run,
)
from support.errors import raises_code
from support.exhaustive import IS_EXHAUSTIVE
from support.run_directories import RunBuilder

SECRET = "correct-horse-battery-9f2c"
TEXT = f"export API_KEY={SECRET}\n".encode() + b"\xff and bytes\n"
ROUNDS = 50 if IS_EXHAUSTIVE else 1


class Place:
    """A sealed run with one redacted text, its vault, and who may open it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.key = SigningKey.load(root / "keys" / "seal.pem")
        self.secret = x25519.Identity.generate()
        self.other = x25519.Identity.generate()
        self.vaults = root / "originals"
        self.run = root / "runs" / "one"
        policy = root / "custody.toml"
        policy.write_text(f'recipients = ["{self.secret.to_public()}"]\n')
        self.policy = CustodyPolicy.load(policy)
        self._record()

    def _record(self) -> None:
        redactor = self.policy.open_redactor(SecretRedactor({"API_KEY": SECRET}), run="one")
        run = RunBuilder(self.run, redactor=redactor)
        for text in (TEXT, TEXT, b"nothing to hide\n"):
            transcript = AgentTranscript(path="stdout", format=None, body=run.writer.body(text))
            run.writer.append(transcript, actor="agent")
        seal_run(run.finish(), self.key, harness_version="0")

    def ask(self, reason: str = "appeal 7", **fields: frozenset[str]) -> OriginalsRequest:
        return OriginalsRequest(run=self.run, vaults=self.vaults, reason=reason, key=self.key, **fields)

    @property
    def identity(self) -> AgeIdentity:
        return AgeIdentity(f"# created\n{self.secret}\n", name="me")

    @property
    def log(self) -> Path:
        return self.vaults / "one" / "access.jsonl"

    def list_actions(self) -> list[str]:
        return [entry.action for entry in read_access_log(self.run, self.vaults).entries]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_recipient_gets_the_exact_bytes_whose_digest_is_in_the_chain(place: Place) -> None:
    (opened,) = place.ask().open(place.identity)
    assert (opened.data, opened.digest) == (TEXT, digest_bytes(TEXT))
    bodies = {event.seq: event.payload.body for event in iter_events(RunPaths(place.run).trace)
              if isinstance(event.payload, AgentTranscript)}  # fmt: skip
    assert {seq for seq, body in bodies.items() if body.digest == opened.digest} == set(opened.events)
    assert place.list_actions() == ["opened"]


def test_no_plaintext_is_in_the_vault_or_in_the_record(place: Place) -> None:
    files = [path for path in place.root.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    kept = [*(place.vaults / "one").iterdir()]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert (place.vaults / "one").stat().st_mode & 0o777 == 0o700


def test_the_age_program_opens_an_original_without_this_software(place: Place, tmp_path: Path) -> None:
    program = shutil.which("age")
    if program is None:
        pytest.skip("no age here; get it with: apt-get install age")
    identity = tmp_path / "identity.txt"
    identity.write_text(f"{place.secret}\n")
    (encrypted,) = (place.vaults / "one").glob("*.age")
    ended = subprocess.run([program, "-d", "-i", identity, encrypted], capture_output=True, check=True)
    assert ended.stdout == TEXT


def test_another_identity_is_refused_and_the_try_is_on_record(place: Place) -> None:
    with raises_code("access-refused"):
        place.ask().open(AgeIdentity(str(place.other), name="other"))
    (entry,) = read_access_log(place.run, place.vaults).entries
    assert (entry.action, entry.by, entry.reason) == ("refused", str(place.other.to_public()), "appeal 7")


def test_a_recipient_written_into_the_header_later_opens_nothing(place: Place) -> None:
    header = place.vaults / "one" / "vault.json"
    header.write_text(header.read_text().replace(str(place.secret.to_public()), str(place.other.to_public())))
    with raises_code("vault-corrupt"):
        place.ask().open(AgeIdentity(str(place.other), name="other"))
    assert place.list_actions() == ["opened"], "what was asked for is on record all the same"


class _Deadly:
    """An identity whose holder's process dies at the moment of the first plaintext."""

    def __init__(self, identity: AgeIdentity) -> None:
        self.recipient = identity.recipient

    def decrypt(self, data: bytes) -> bytes:
        del data
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_process_that_dies_with_the_plaintext_in_hand_is_on_record(place: Place) -> None:
    identity = _Deadly(place.identity)
    child = os.fork()
    if child == 0:
        place.ask().open(identity)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert place.list_actions() == ["opened"]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kill_at_any_moment_leaves_no_plaintext_without_its_entry(place: Place, number: int) -> None:
    out = place.root / "out"
    child = os.fork()
    if child == 0:
        for opened in place.ask().open(place.identity):
            out.write_bytes(opened.data)
        os._exit(0)
    time.sleep(Random(number).uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    actions = place.list_actions()  # the log holds in any case
    assert not out.exists() or actions == ["opened"]


def test_requests_at_the_same_time_are_all_on_record(place: Place) -> None:
    identity = place.identity
    threads = [threading.Thread(target=lambda: place.ask().open(identity)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.list_actions() == ["opened"] * 6


_DAMAGES: list[Callable[[list[bytes]], list[bytes]]] = [
    lambda lines: lines[1:],
    lambda lines: [lines[0], lines[2], lines[1]],
    lambda lines: [lines[0], lines[0], *lines[1:]],
    lambda lines: [lines[0][:-40], *lines[1:]],
    lambda lines: [lines[0].replace(b'"sig":"', b'"sig":"AAAA'), *lines[1:]],
]


@pytest.mark.parametrize("damage", _DAMAGES)
def test_nothing_is_opened_beside_an_edited_log(
    place: Place, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    for _ in range(3):
        place.ask().open(place.identity)
    lines = damage(place.log.read_bytes().splitlines())
    place.log.write_bytes(b"".join(line + b"\n" for line in lines))
    with raises_code("access-log-invalid"):
        read_access_log(place.run, place.vaults)
    with raises_code("access-log-invalid"):
        place.ask().open(place.identity)


def test_the_log_of_another_run_is_not_taken(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other")
    other.ask().open(other.identity)
    shutil.copy(other.log, place.log)
    with raises_code("access-log-invalid"):
        read_access_log(place.run, place.vaults)


def test_a_request_by_an_unknown_key_is_named(place: Place, tmp_path: Path) -> None:
    place.ask().open(place.identity)
    stranger: PublicKey = SigningKey.load(tmp_path / "stranger.pem").public_key
    assert read_access_log(place.run, place.vaults, [place.key.public_key]).key_ids == (place.key.key_id,)
    with raises_code("access-log-invalid", match="unknown key"):
        read_access_log(place.run, place.vaults, [stranger])


def test_an_exchanged_original_is_not_handed_out(place: Place) -> None:
    (encrypted,) = (place.vaults / "one").glob("*.age")
    encrypted.write_bytes(encrypt(b"another text", [place.secret.to_public()]))
    with raises_code("vault-corrupt", match="expected sha256:"):
        place.ask().open(place.identity)


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_request_without_a_reason_opens_nothing(place: Place, reason: str) -> None:
    with raises_code("access-request"):
        place.ask(reason).open(place.identity)
    with raises_code("access-request"):
        place.ask(digests=frozenset({digest_bytes(b"x")})).open(place.identity)
    assert place.list_actions() == []


def test_shredding_is_on_record_and_the_run_verifies_as_before(place: Place) -> None:
    assert place.ask("retention ended").shred(by="custodian") == 1
    assert not [*(place.vaults / "one").glob("*.age")]
    entries = read_access_log(place.run, place.vaults).entries
    assert [(entry.action, len(entry.originals)) for entry in entries] == [("shredding", 1), ("shredded", 1)]
    assert entries[0].originals[0].digest == digest_bytes(TEXT)
    assert place.ask().shred(by="custodian") == 0
    assert place.ask().open(place.identity) == []
    assert isinstance(check_run(RunPaths(place.run), trusted_keys=None).chain, Holds)


def test_a_shredding_that_was_cut_is_finished_by_the_same_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_: Vault) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Vault, "remove_originals", cut)
        with pytest.raises(KeyboardInterrupt):
            place.ask().shred(by="custodian")
    assert place.ask().shred(by="custodian") == 1
    assert place.list_actions() == ["shredding", "shredding", "shredded"]


def test_originals_of_a_run_that_may_go_on_are_not_shredded(place: Place) -> None:
    RunPaths(place.run).seal.unlink()
    with raises_code("access-request", match="sealed"):
        place.ask().shred(by="custodian")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipients = []", "recipients"),
        ('recipients = ["age1nope"]', r"recipients\[0\]"),
        ('recipient = ["x"]', "recipient"),
        ("recipients = 7\n[", "custody.toml"),
    ],
)
def test_a_wrong_policy_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "custody.toml"
    path.write_text(text)
    with raises_code("custody-policy", match=message):
        CustodyPolicy.load(path)


def test_an_identity_file_without_a_key_is_one_clear_line() -> None:
    with raises_code("custody-policy", match="mine.txt"):
        AgeIdentity("# nothing\n", name="mine.txt")


def test_the_vault_of_another_run_is_never_written_into(place: Place) -> None:
    before = json.dumps(sorted(str(path) for path in (place.vaults / "one").iterdir()))
    with raises_code("vault-write"):
        place.policy.open_redactor(SecretRedactor({}), run="one")
    assert json.dumps(sorted(str(path) for path in (place.vaults / "one").iterdir())) == before


def test_a_text_that_cannot_be_kept_is_not_recorded_without_it(place: Place) -> None:
    redactor = place.policy.open_redactor(SecretRedactor({"API_KEY": SECRET}), run="two")
    shutil.rmtree(place.vaults / "two")
    (place.vaults / "two").write_text("in the way")
    with raises_code("vault-write"):
        redactor.redact(f"key {SECRET}")
    assert redactor.redact("nothing here").text == "nothing here"
