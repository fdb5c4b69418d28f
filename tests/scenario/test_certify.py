"""`contract certify`, end to end: trials, a signed certificate, and what it is worth afterwards."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial import api
from repotrial.authoring import lock_contract, write_certificate
from repotrial.authoring._certify import _certify
from repotrial.authoring._certify import _file as _procedure
from repotrial.authoring._certify._cheats._common import Cheat
from repotrial.authoring._certify._file import load_certificate
from repotrial.authoring._certify._model import CERTIFICATE_FILE, CheatTrial
from repotrial.contract import load_contract
from repotrial.signing import SigningKey
from support.command_line import Ended, call, start
from support.contracts import write_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

CONTRACT = """\
schema = "repotrial/contract@1"
id = "answer"
title = "The answer is wrong"
kind = "bug-fix"
reference = "reference.patch"

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"

[[checks]]
id = "there"
gate = "acceptance"
run = "test -f answer.txt"
judge = "out-of-process"
baseline = "pass"
timeout_seconds = 300

[[checks]]
id = "right"
gate = "acceptance"
run = "grep -qx right answer.txt"
judge = "out-of-process"
baseline = "fail"
timeout_seconds = 300

[policy]
writable = ["answer.txt"]
"""
REFERENCE = """\
diff --git a/answer.txt b/answer.txt
index 1111111..2222222 100644
--- a/answer.txt
+++ b/answer.txt
@@ -1 +1 @@
-wrong
+right
"""


class Bench:
    """A contract and a command that certifies it."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place = place
        self.capsys = capsys
        self.directory = place / "contract"
        self.certificate = self.directory / CERTIFICATE_FILE
        write_contract(
            self.directory, CONTRACT, files={"repo/answer.txt": "wrong\n", "reference.patch": REFERENCE}
        )
        lock_contract(self.directory)

    def certify(self, *options: str) -> Ended:
        key, cache = self.place / "key.pem", self.place / "cache"
        arguments = ("--key-file", str(key), "--cache", str(cache), *options)
        return call(self.capsys, "contract", "certify", self.directory, *arguments)

    def show(self, key_file: Path | None = None) -> dict[str, Any]:
        key = api.show_key(key_file or self.place / "key.pem")
        public = self.place / "public.pem"
        public.write_text(key.public_key, encoding="ascii")
        ended = call(self.capsys, "contract", "show", self.directory, "--key", public, "--json")
        shown: dict[str, Any] = json.loads(ended.out)["certificate"]
        return shown


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Iterator[Bench]:
    require_sandboxes()
    with scratch() as place:
        yield Bench(place, capsys)


def test_a_certified_contract_keeps_its_certificate_until_it_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = bench.certify("--repeats", "2", "--json")
    assert ended.status == 0, ended.out
    (found,) = json.loads(ended.out)
    outcomes = {item["id"]: item["outcome"] for item in found["certificate"]["items"]}
    assert {name for name, outcome in outcomes.items() if outcome == "holds"} >= {
        *("history", "workspace", "baseline", "reference", "repetition"),
        *("stability", "order", "odd-patches", "offline-oracle", "cheats"),
    }
    assert outcomes["twins"] == "not-applicable"
    purposes = [run["purpose"] for run in found["certificate"]["runs"]]
    assert purposes.count("untouched") == purposes.count("reference") == 2
    assert {"reordered", "empty-patch", "oversized-patch", "cheat path-trojan (open)"} <= set(purposes)
    assert bench.show()["state"] == "valid"
    assert bench.show(bench.place / "other.pem")["state"] == "untrusted"

    text = (bench.directory / "contract.toml").read_text(encoding="utf-8")
    (bench.directory / "contract.toml").write_text(text.replace("grep -qx", "grep -q"), encoding="utf-8")
    assert bench.show()["state"] == "stale"  # the lock does not fit any more
    lock_contract(bench.directory)
    stale = bench.show()
    assert (stale["state"], stale["changed"]) == ("stale", ["version_id"])
    (bench.directory / "contract.toml").write_text(text, encoding="utf-8")
    lock_contract(bench.directory)
    assert bench.show()["state"] == "valid"

    monkeypatch.setattr(_procedure, "PROCEDURE", _procedure.PROCEDURE + 1)
    outdated = bench.show()
    assert (outdated["state"], outdated["changed"]) == ("stale", ["procedure_digest"])


def test_an_edited_certificate_is_worthless(bench: Bench) -> None:
    assert bench.certify("--quick").status == 0
    envelope = json.loads(bench.certificate.read_bytes())
    payload = base64.b64decode(envelope["payload"])
    assert b'"grade":"quick"' in payload
    envelope["payload"] = base64.b64encode(payload.replace(b'"quick"', b'"full"', 1)).decode()
    bench.certificate.write_text(json.dumps(envelope, separators=(",", ":"), sort_keys=True))
    assert bench.show()["state"] == "refused"
    bench.certificate.write_text("{}")
    assert bench.show()["state"] == "refused"
    bench.certificate.unlink()
    assert bench.show()["state"] == "missing"


def test_a_contract_that_asks_for_nothing_is_not_certified(bench: Bench) -> None:
    (bench.directory / "repo" / "answer.txt").write_text("right\nwrong\n", encoding="utf-8")
    reference = REFERENCE.replace("@@ -1 +1 @@\n-wrong\n+right", "@@ -1,2 +1 @@\n right\n-wrong")
    (bench.directory / "reference.patch").write_text(reference, encoding="utf-8")
    lock_contract(bench.directory)
    ended = bench.certify("--quick")
    assert ended.status == 1, ended.out
    assert "baseline: the untouched snapshot is a success: the contract asks for nothing" in ended.out
    assert "right: expected fail, found pass" in ended.out
    state = bench.show()
    assert (state["state"], state["certificate"]["is_certified"]) == ("valid", False)


def test_cheats_reach_the_judge_where_hidden_tests_go_to_the_top(bench: Bench) -> None:
    text = CONTRACT.replace("reference =", 'ecosystem = "python"\nreference =')
    text = text.replace(
        'id = "right"', 'id = "right"\nfiles = [{ from = "checks/right", to = "." }]'
    ).replace('"answer.txt"]', '"**"]')
    files = {
        "contract.toml": text,
        "checks/right/tests/test_answer.py": "def test_it(): ...\n",
        "repo/conftest.py": "before = True\n",
        "repo/module.py": "answer = 1\n",
        "repo/tests/test_old.py": "def test_old(): ...\n",
    }
    for path, content in files.items():
        (bench.directory / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.directory / path).write_text(content, encoding="utf-8")
    lock_contract(bench.directory)
    ended = bench.certify("--repeats", "2", "--jobs", "2", "--json")
    assert ended.status == 0, ended.out
    (found,) = json.loads(ended.out)
    tried = [cheat for cheat in found["certificate"]["cheats"] if cheat["run"]]
    assert {"forced-pass-hook", "test-shadow", "assertion-patched"} <= {cheat["name"] for cheat in tried}
    assert {cheat["outcome"] for cheat in tried} == {"refused"}
    assert not any("patch-does-not-apply" in cheat["tags"] for cheat in tried)


def test_a_cheat_with_a_broken_patch_is_no_evidence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = REFERENCE.replace("-wrong", "-something else").encode()
    forbidden = broken.replace(b"answer.txt", b"conftest.py")
    cheats = (
        Cheat(name="early-exit", variant="module", patch=broken),
        Cheat(name="stdout-forgery", variant="module", patch=b"diff --git a/./x b/./x\n"),
        Cheat(name="forced-pass-hook", variant="open", patch=forbidden),
    )
    monkeypatch.setattr(_certify, "build_cheats", lambda _scene: cheats)
    ended = bench.certify("--quick")
    assert ended.status == 1, ended.out
    assert "cheats: early-exit (module) was not tried (the change does not apply" in ended.out
    assert "cheats: stdout-forgery (module) was not tried" in ended.out
    certificate = bench.show()["certificate"]
    assert not certificate["is_certified"]
    # What the policy refuses is refused, whether it applies or not.
    assert [cheat["outcome"] for cheat in certificate["cheats"]] == ["not-tried", "not-tried", "refused"]


def test_a_certificate_of_old_that_counts_broken_patches_is_stale(bench: Bench) -> None:
    assert bench.certify("--quick").status == 0
    hollow = CheatTrial(
        name="early-exit", variant="open", outcome="refused", tags=("patch-does-not-apply",), run="a"
    )
    old = msgspec.structs.replace(load_certificate(bench.certificate).predicate, cheats=(hollow,))
    write_certificate(load_contract(bench.directory), old, SigningKey.load(bench.place / "key.pem"))
    assert (bench.show()["state"], bench.show()["changed"]) == ("stale", ["cheats"])


def test_a_contract_without_a_reference_cannot_be_certified(bench: Bench) -> None:
    text = CONTRACT.replace('reference = "reference.patch"\n', "")
    (bench.directory / "contract.toml").write_text(text, encoding="utf-8")
    lock_contract(bench.directory)
    ended = bench.certify("--quick")
    assert ended.status != 0
    assert "not-certifiable" in ended.err
    assert not bench.certificate.exists()


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(bench: Bench) -> None:
    text = CONTRACT.replace("grep -qx right", "sleep 2; grep -qx right")
    (bench.directory / "contract.toml").write_text(text, encoding="utf-8")
    lock_contract(bench.directory)
    places = ("--key-file", bench.place / "key.pem", "--cache", bench.place / "cache")
    words = ("contract", "certify", bench.directory, "--runs", bench.place / "runs", *places)
    with start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    said = err.decode()
    assert process.returncode == 130
    assert f"stopped: no certificate was written for {bench.directory}" in said
    assert f"finished runs are kept in {bench.place / 'runs'}; give the same command again" in said
    assert "Traceback" not in said
    assert not bench.certificate.exists()


def test_a_machine_that_lacks_a_tool_is_no_verdict_on_the_contract(bench: Bench) -> None:
    text = CONTRACT.replace('image = "host"', 'image = "host"\ntools = { no-such-tool-here = ">=1" }')
    (bench.directory / "contract.toml").write_text(text, encoding="utf-8")
    lock_contract(bench.directory)
    ended = bench.certify("--quick")
    assert ended.status == 3, ended.err
    assert not bench.certificate.exists()
    skipped = bench.certify("--quick", "--skip-unavailable")
    assert skipped.status == 3, "it was the only one"
    assert "no-such-tool-here: expected >=1, found none" in skipped.err
