from __future__ import annotations

import base64
import contextlib
import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.canonical import canonical_bytes
from repotrial._core.digest import digest_file
from repotrial._core.errors import EvidenceError
from repotrial.signing import SigningKey, TrustedSigner, UncheckedSigner, UnknownSigner, parse_public_key
from repotrial.trace import RunPaths, TraceHead, check_run, seal_run
from repotrial.trace._seal import MAX_SEAL_BYTES, SEAL_PREDICATE_TYPE, load_seal, parse_seal
from support.errors import raises_code
from support.run_directories import VERSION_ID, RunBuilder, build_facts, build_run, build_sealed_run
from support.traces import full_disk


class FixedClock:
    def now_us(self) -> int:
        return 1_700_000_000_000_001


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    paths, _ = build_sealed_run(tmp_path_factory.mktemp("sealed") / "run")
    return paths.seal.read_bytes()


def test_a_sealed_run_is_intact_and_trusted(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    report = check_run(paths, trusted_keys=[key.public_key]).seal_report
    assert (report.signer, report.problems) == (TrustedSigner(key_id=key.key_id), ())
    assert report.is_trusted


def test_without_a_public_key_the_signer_stays_unchecked(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    report = check_run(paths, trusted_keys=None).seal_report
    assert report.signer == UncheckedSigner(key_id=key.key_id)
    assert report.is_intact
    assert not report.is_trusted


def test_a_key_that_is_not_trusted_is_an_unknown_signer(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    other = SigningKey.load(tmp_path / "other.pem")
    for trusted in ([], [other.public_key]):
        report = check_run(paths, trusted_keys=trusted).seal_report
        assert report.signer == UnknownSigner(key_id=key.key_id)
        assert not report.is_trusted


def test_a_copy_is_verified_elsewhere_with_the_public_key_alone(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    copy = RunPaths(tmp_path / "elsewhere")
    copy.root.mkdir()
    for source in sorted(paths.root.rglob("*")):
        target = copy.root / source.relative_to(paths.root)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    copy.trace_lock.unlink()
    assert check_run(copy, trusted_keys=[parse_public_key(key.public_key.pem)]).seal_report.is_trusted


def test_the_seal_says_what_it_seals(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    key = SigningKey.load(tmp_path / "seal.pem")
    seal = seal_run(paths, key, harness_version="0.1.0", clock=FixedClock())
    assert load_seal(paths.seal).predicate == seal
    chain = check_run(paths, trusted_keys=None).chain_report
    assert seal.head == chain.head == TraceHead(count=21, hash=seal.head_hash)
    assert seal.run_id == "run-1"
    assert seal.contract_version_id == VERSION_ID
    assert seal.manifest_digest == digest_file(paths.manifest)
    assert seal.sealed_at_us == 1_700_000_000_000_001
    assert seal.public_key == key.public_key.pem
    assert seal.trust_limits.endswith(".")


def test_events_cut_between_the_writer_and_the_seal_are_missed_by_every_reader(tmp_path: Path) -> None:
    paths, honest = build_run(tmp_path / "cut"), build_run(tmp_path / "honest")
    key, head = SigningKey.load(tmp_path / "seal.pem"), check_run(paths, trusted_keys=None).chain_report.head
    paths.trace.write_bytes(b"".join(paths.trace.read_bytes().splitlines(keepends=True)[:-1]))
    for each in (paths, honest):
        seal_run(each, key, harness_version="0.1.0", head=head)
    assert not check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted
    assert check_run(honest, trusted_keys=[key.public_key]).seal_report.is_trusted


def test_the_file_is_a_dsse_envelope_with_an_in_toto_statement(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    envelope = json.loads(paths.seal.read_bytes())
    assert set(envelope) == {"payload", "payloadType", "signatures"}
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert [signature["keyid"] for signature in envelope["signatures"]] == [key.key_id]
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == SEAL_PREDICATE_TYPE
    subjects = {subject["name"]: subject["digest"] for subject in statement["subject"]}
    assert {"trace.jsonl", "manifest.json", "change.patch", "acceptance/unit/junit.xml"} < set(subjects)
    assert sum(name.startswith("blobs/") for name in subjects) == 2
    for name, digest in subjects.items():
        assert digest == {"sha256": digest_file(paths.root / name).removeprefix("sha256:")}


def test_what_can_be_computed_again_may_come_later(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    paths.report.write_text("{}")
    paths.score.write_text("{}")
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted


def test_a_run_is_sealed_once(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    before = paths.seal.read_bytes()
    with raises_code("seal-exists"):
        seal_run(paths, key, harness_version="0.1.0")
    assert paths.seal.read_bytes() == before


def test_a_trace_that_is_still_written_is_not_sealed(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    key = SigningKey.load(tmp_path / "seal.pem")
    with raises_code("unsealable", match="being written"):
        seal_run(builder.paths, key, harness_version="0.1.0")
    builder.finish()
    seal_run(builder.paths, key, harness_version="0.1.0")


def test_a_broken_chain_is_not_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    paths.trace.write_bytes(paths.trace.read_bytes().replace(b"I run ls", b"I run rm"))
    with raises_code("unsealable", match="intact"):
        seal_run(paths, SigningKey.load(tmp_path / "seal.pem"), harness_version="0.1.0")
    assert not paths.seal.exists()


def test_a_manifest_of_another_run_is_not_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    other = build_run(tmp_path / "other", run_id="run-2")
    paths.manifest.write_bytes(other.manifest.read_bytes())
    with raises_code("unsealable"):
        seal_run(paths, SigningKey.load(tmp_path / "seal.pem"), harness_version="0.1.0")


def test_a_manifest_that_the_trace_was_not_opened_with_is_not_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    changed = msgspec.structs.replace(build_facts(), locale="en_US.UTF-8").build_manifest()
    paths.manifest.write_bytes(canonical_bytes(msgspec.to_builtins(changed)))
    with raises_code("unsealable", match="expected a trace of the manifest"):
        seal_run(paths, SigningKey.load(tmp_path / "seal.pem"), harness_version="0.1.0")


def test_a_link_in_the_directory_is_not_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    (paths.acceptance / "link").symlink_to("/etc/passwd")
    with raises_code("unsealable", match="link"):
        seal_run(paths, SigningKey.load(tmp_path / "seal.pem"), harness_version="0.1.0")


def test_file_names_that_are_not_utf8_can_be_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    odd = paths.acceptance / "unit" / os.fsdecode(b"\xff \n.log")
    odd.write_text("odd")
    key = SigningKey.load(tmp_path / "seal.pem")
    seal_run(paths, key, harness_version="0.1.0")
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted


def test_a_missing_run_directory_has_no_seal(tmp_path: Path) -> None:
    report = check_run(RunPaths(tmp_path / "absent"), trusted_keys=None).seal_report
    assert not report.is_intact
    with raises_code("trace-unreadable"):
        load_seal(tmp_path / "absent" / "seal.json")


def test_a_seal_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "seal.json").open("wb") as stream:
        stream.truncate(MAX_SEAL_BYTES + 1)
    with raises_code("seal-invalid", match="at most"):
        load_seal(tmp_path / "seal.json")


@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_a_named_error(data: bytes) -> None:
    with raises_code("seal-invalid"):
        parse_seal(data)


@given(st.data())
def test_no_edit_of_a_seal_ends_in_anything_but_a_named_error(sealed: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(start, min(len(sealed), start + 20)))
    with contextlib.suppress(EvidenceError):
        parse_seal(sealed[:start] + data.draw(st.binary(max_size=8)) + sealed[end:])


@given(st.data())
def test_no_edit_of_the_statement_ends_in_more_than_a_named_error(sealed: bytes, data: st.DataObject) -> None:
    envelope = json.loads(sealed)
    payload = base64.b64decode(envelope["payload"])
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, min(len(payload), start + 20)))
    edited = payload[:start] + data.draw(st.binary(max_size=8)) + payload[end:]
    envelope["payload"] = base64.b64encode(edited).decode()
    with contextlib.suppress(EvidenceError):
        parse_seal(json.dumps(envelope, separators=(",", ":"), sort_keys=True).encode())


def test_a_later_version_is_refused_by_name(sealed: bytes) -> None:
    envelope = json.loads(sealed)
    payload = base64.b64decode(envelope["payload"]).replace(b"urn:repotrial:seal:1", b"urn:repotrial:seal:2")
    envelope["payload"] = base64.b64encode(payload).decode()
    with raises_code("seal-version", match="seal:2"):
        parse_seal(json.dumps(envelope, separators=(",", ":"), sort_keys=True).encode())


def test_a_full_disk_leaves_no_seal_and_no_litter(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    key = SigningKey.load(tmp_path / "key.pem")
    before = sorted(paths.root.rglob("*"))
    with full_disk(100), raises_code("trace-write"):
        seal_run(paths, key, harness_version="0.1.0")
    assert sorted(paths.root.rglob("*")) == before
    seal_run(paths, key, harness_version="0.1.0")


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    key = SigningKey.load(tmp_path / "key.pem")
    with raises_code("unsealable", match="found none"):
        seal_run(RunPaths(tmp_path / "run"), key, harness_version="0.1.0")
    assert not (tmp_path / "run").exists()
