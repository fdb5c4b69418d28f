"""What can be done to a sealed run directory, and what the seal says about it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from repotrial._core.canonical import canonical_bytes
from repotrial._core.errors import EvidenceError, UsageError
from repotrial.signing import NoSigner, SigningKey, UnknownSigner
from repotrial.trace import CouldNotBeChecked, DoesNotHold, RunPaths, check_run, seal_run
from repotrial.trace._seal import MAX_SEAL_BYTES, _write
from repotrial.trace._seal_check import (
    BadSignature,
    FileAddedAfterSealing,
    FileChanged,
    FileMissing,
    MalformedSeal,
    NoSeal,
    NotAPlainFile,
    OtherRun,
    SealReport,
    TraceCutOff,
    UnknownSealVersion,
)
from support.errors import raises_code
from support.exhaustive import sample
from support.run_directories import build_run, build_sealed_run

ARTIFACT = "acceptance/unit/junit.xml"
EVENTS = 21
"""So many has the trace of the run."""
SealedRun: TypeAlias = tuple[RunPaths, SigningKey]


@pytest.fixture
def run(tmp_path: Path) -> SealedRun:
    return build_sealed_run(tmp_path / "run")


def check(run: SealedRun) -> SealReport:
    """The report of the owner of the key; whatever it is, it must not be trust."""
    paths, key = run
    verification = check_run(paths, trusted_keys=[key.public_key])
    assert not verification.seal_report.is_trusted
    assert not verification.holds
    return verification.seal_report


def edit_envelope(paths: RunPaths, edit: Callable[[dict[str, Any]], None]) -> None:
    envelope = json.loads(paths.seal.read_bytes())
    edit(envelope)
    paths.seal.write_bytes(canonical_bytes(envelope))


def edit_statement(paths: RunPaths, edit: Callable[[dict[str, Any]], None]) -> None:
    def edit_payload(envelope: dict[str, Any]) -> None:
        statement = json.loads(base64.b64decode(envelope["payload"]))
        edit(statement)
        envelope["payload"] = base64.b64encode(canonical_bytes(statement)).decode()

    edit_envelope(paths, edit_payload)


def kinds(report: SealReport) -> set[type[object]]:
    return {type(problem) for problem in report.problems}


@pytest.mark.parametrize("kept", range(EVENTS))
def test_truncated_tail_is_detected(run: SealedRun, kept: int) -> None:
    paths, _ = run
    lines = paths.trace.read_bytes().splitlines(keepends=True)
    paths.trace.write_bytes(b"".join(lines[:kept]))
    report = check(run)
    assert TraceCutOff(sealed_count=EVENTS, found_count=kept) in report.problems
    assert kinds(report) == {TraceCutOff, FileChanged}


def test_torn_last_line_is_detected(run: SealedRun) -> None:
    paths, _ = run
    paths.trace.write_bytes(paths.trace.read_bytes()[:-1])
    assert kinds(check(run)) == {TraceCutOff, FileChanged}


def test_appended_event_is_detected(run: SealedRun) -> None:
    paths, _ = run
    with paths.trace.open("ab") as stream:
        stream.write(b"{}\n")
    assert kinds(check(run)) == {FileChanged}


def test_seal_replayed_from_another_run_is_detected(run: SealedRun, tmp_path: Path) -> None:
    paths, key = run
    other = build_run(tmp_path / "other", run_id="run-2")
    seal_run(other, key, harness_version="0.1.0")
    paths.seal.write_bytes(other.seal.read_bytes())
    report = check(run)
    assert OtherRun(sealed_run_id="run-2", found_run_id="run-1") in report.problems


def test_trace_and_seal_of_another_run_under_this_manifest_are_detected(
    run: SealedRun, tmp_path: Path
) -> None:
    paths, key = run
    other = build_run(tmp_path / "other", run_id="run-2")
    seal_run(other, key, harness_version="0.1.0")
    for name in ("trace.jsonl", "seal.json"):
        shutil.copy(other.root / name, paths.root / name)
    assert OtherRun in kinds(check(run))
    assert isinstance(check_run(paths, trusted_keys=[key.public_key]).identity, DoesNotHold)


def test_signing_anew_with_another_key_is_detected(run: SealedRun, tmp_path: Path) -> None:
    paths, key = run
    forger = SigningKey.load(tmp_path / "forger.pem")
    paths.seal.unlink()
    paths.change.write_text("a better patch")
    seal_run(paths, forger, harness_version="0.1.0")
    report = check(run)
    assert report.signer == UnknownSigner(key_id=forger.key_id)
    assert isinstance(check_run(paths, trusted_keys=[key.public_key]).seal, DoesNotHold)


def test_signature_of_another_key_under_the_trusted_key_id_is_detected(
    run: SealedRun, tmp_path: Path
) -> None:
    paths, key = run
    forger = SigningKey.load(tmp_path / "forger.pem")
    paths.seal.unlink()
    seal_run(paths, forger, harness_version="0.1.0")
    edit_envelope(paths, lambda envelope: envelope["signatures"][0].update(keyid=key.key_id))
    assert check(run).signer == NoSigner()


def test_trusted_public_key_inside_a_forged_statement_is_detected(run: SealedRun, tmp_path: Path) -> None:
    paths, key = run
    forger = SigningKey.load(tmp_path / "forger.pem")
    paths.seal.unlink()
    seal_run(paths, forger, harness_version="0.1.0")
    edit_statement(paths, lambda statement: statement["predicate"].update(public_key=key.public_key.pem))
    assert BadSignature in kinds(check(run))


@pytest.mark.parametrize("name", ["manifest.json", "trace.jsonl", "change.patch", ARTIFACT])
def test_swapped_file_is_detected(run: SealedRun, tmp_path: Path, name: str) -> None:
    paths, _ = run
    other, _ = build_sealed_run(tmp_path / "elsewhere" / "run", run_id="run-2")
    (other.change).write_text("another change")
    (other.acceptance / "unit" / "junit.xml").write_text("<better/>")
    shutil.copy(other.root / name, paths.root / name)
    report = check(run)
    assert [problem.name for problem in report.problems if isinstance(problem, FileChanged)] == [name]


@pytest.mark.parametrize("name", [f"{ARTIFACT}.more", "acceptance/e2e/junit.xml", "blobs/aa/bb", "notes"])
def test_added_file_is_detected(run: SealedRun, name: str) -> None:
    paths, _ = run
    (paths.root / name).parent.mkdir(parents=True, exist_ok=True)
    (paths.root / name).write_text("new")
    assert check(run).problems == (FileAddedAfterSealing(name=name),)


def nest_folders(top: Path, *, depth: int) -> None:
    """So many folders, one in the other, and a file in the last."""
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("hidden", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


def test_folders_nested_deeper_than_calls_end_in_a_verdict(run: SealedRun) -> None:
    paths, key = run
    try:
        nest_folders(paths.acceptance, depth=1500)
        verification = check_run(paths, trusted_keys=[key.public_key])
    finally:
        # Python's own way is recursive too, and would fail for whoever tidies up after us.
        subprocess.run(["rm", "-rf", paths.acceptance / "d"], check=True)
    assert kinds(verification.seal_report) == {FileAddedAfterSealing}


@pytest.mark.parametrize("name", ["Manifest.json", "TRACE.JSONL", "acceptance/Unit/junit.xml"])
def test_file_under_another_case_is_detected(run: SealedRun, name: str) -> None:
    paths, _ = run
    target = paths.root / name
    target.parent.mkdir(exist_ok=True)
    shutil.copy(
        next(path for path in paths.root.rglob("*") if str(path).lower() == str(target).lower()), target
    )
    assert FileAddedAfterSealing(name=name) in check(run).problems


def test_name_in_another_unicode_form_is_detected(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    composed, decomposed = "caf\u00e9.log", "cafe\u0301.log"
    (paths.acceptance / composed).write_text("log")
    key = SigningKey.load(tmp_path / "key.pem")
    seal_run(paths, key, harness_version="0.1.0")
    (paths.acceptance / composed).rename(paths.acceptance / decomposed)
    assert check((paths, key)).problems == (
        FileAddedAfterSealing(name=f"acceptance/{decomposed}"),
        FileMissing(name=f"acceptance/{composed}"),
    )


def test_change_through_a_hard_link_is_detected(run: SealedRun, tmp_path: Path) -> None:
    paths, key = run
    os.link(paths.change, tmp_path / "other name")
    assert check_run(paths, trusted_keys=[key.public_key]).holds
    (tmp_path / "other name").write_text("another change")
    assert kinds(check(run)) == {FileChanged}


COMPUTED = ["report.json", "score.json", "retrieval_events/cfg/task.retrieval_metrics.json"]


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_files_come_and_go_without_touching_the_seal(run: SealedRun, name: str) -> None:
    paths, key = run
    (paths.root / name).parent.mkdir(parents=True, exist_ok=True)
    for text in ("computed", "a lie that nobody reads"):
        (paths.root / name).write_text(text)
        assert check_run(paths, trusted_keys=[key.public_key]).holds
    (paths.root / name).unlink()
    assert check_run(paths, trusted_keys=[key.public_key]).holds


@pytest.mark.parametrize(
    "name", ["report.json.bak", "Score.json", "acceptance/report.json", "retrieval_events2/x"]
)
def test_only_the_names_of_computed_files_are_free(run: SealedRun, name: str) -> None:
    paths, _ = run
    (paths.root / name).parent.mkdir(parents=True, exist_ok=True)
    (paths.root / name).write_text("new")
    assert check(run).problems == (FileAddedAfterSealing(name=name),)


@pytest.mark.parametrize("name", ["report.json", "retrieval_events", "retrieval_events/x", "trace.lock"])
def test_link_under_the_name_of_a_computed_file_is_detected(
    run: SealedRun, tmp_path: Path, name: str
) -> None:
    paths, _ = run
    (tmp_path / "elsewhere").mkdir()
    (paths.root / name).parent.mkdir(parents=True, exist_ok=True)
    (paths.root / name).unlink(missing_ok=True)
    (paths.root / name).symlink_to(tmp_path / "elsewhere")
    assert check(run).problems == (NotAPlainFile(name=name),)


def test_computed_files_are_no_part_of_what_is_sealed(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    paths.report.write_text("{}")
    paths.retrieval_events.mkdir()
    (paths.retrieval_events / "run_retrieval_summary.json").write_text("{}")
    key = SigningKey.load(tmp_path / "key.pem")
    seal_run(paths, key, harness_version="0.1.0")
    paths.report.unlink()
    shutil.rmtree(paths.retrieval_events)
    assert check_run(paths, trusted_keys=[key.public_key]).holds


def test_two_seals_at_once_leave_one(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    keys = [SigningKey.load(tmp_path / f"{number}.pem") for number in range(4)]

    def seal(key: SigningKey) -> bool:
        try:
            seal_run(paths, key, harness_version="0.1.0")
        except (UsageError, EvidenceError) as error:
            if error.code not in {"seal-exists", "unsealable"}:
                raise
            return False
        return True

    with ThreadPoolExecutor(len(keys)) as pool:
        sealed = list(pool.map(seal, keys))
    (winner,) = [key for key, done in zip(keys, sealed, strict=True) if done]
    assert check_run(paths, trusted_keys=[winner.public_key]).holds


def test_seal_that_no_one_could_read_is_not_written(tmp_path: Path) -> None:
    with raises_code("unsealable", match="found 67108865"):
        _write(tmp_path / "seal.json", bytes(MAX_SEAL_BYTES + 1))
    assert not (tmp_path / "seal.json").exists()


def test_doubled_key_in_the_manifest_is_detected(run: SealedRun) -> None:
    paths, key = run
    data = paths.manifest.read_bytes()
    paths.manifest.write_bytes(data.replace(b'"locale":', b'"locale":"tr_TR","locale":'))
    assert kinds(check(run)) == {FileChanged}
    verification = check_run(paths, trusted_keys=[key.public_key])
    assert isinstance(verification.identity, CouldNotBeChecked)
    assert "another form" in verification.identity.findings[0].text


@pytest.mark.parametrize("place", [b'{"schema":%b}', b'{"agent":%b,"schema":"repotrial/manifest@1"}'])
def test_deeply_nested_manifest_ends_in_a_verdict(run: SealedRun, place: bytes) -> None:
    paths, key = run
    paths.manifest.write_bytes(place % (b"[" * 1000 + b"]" * 1000))
    assert kinds(check(run)) == {FileChanged}
    assert isinstance(check_run(paths, trusted_keys=[key.public_key]).identity, CouldNotBeChecked)


def test_deleted_blob_is_detected(run: SealedRun) -> None:
    paths, key = run
    blob = next(path for path in sorted(paths.blobs.rglob("*")) if path.is_file())
    blob.unlink()
    assert check(run).problems == (FileMissing(name=blob.relative_to(paths.root).as_posix()),)
    assert isinstance(check_run(paths, trusted_keys=[key.public_key]).completeness, DoesNotHold)


@pytest.mark.parametrize("name", ["manifest.json", "trace.jsonl", "change.patch"])
def test_deleted_file_is_detected(run: SealedRun, name: str) -> None:
    paths, _ = run
    (paths.root / name).unlink()
    assert FileMissing(name=name) in check(run).problems


@pytest.mark.parametrize("name", ["manifest.json", "trace.jsonl", "change.patch", ARTIFACT])
def test_symlink_to_the_same_bytes_is_detected(run: SealedRun, tmp_path: Path, name: str) -> None:
    paths, _ = run
    original = tmp_path / "moved"
    (paths.root / name).rename(original)
    (paths.root / name).symlink_to(original)
    assert NotAPlainFile(name=name) in check(run).problems


def test_symlinked_folder_is_detected(run: SealedRun, tmp_path: Path) -> None:
    paths, _ = run
    paths.acceptance.rename(tmp_path / "moved")
    paths.acceptance.symlink_to(tmp_path / "moved")
    assert check(run).problems == (
        NotAPlainFile(name="acceptance"),
        FileMissing(name="acceptance/unit/junit.xml"),
    )


def test_pipe_in_place_of_a_file_does_not_block(run: SealedRun) -> None:
    paths, _ = run
    for path in (paths.change, paths.seal):
        path.unlink()
        os.mkfifo(path)
        check(run)


def test_symlinked_seal_is_no_seal(run: SealedRun, tmp_path: Path) -> None:
    paths, _ = run
    paths.seal.rename(tmp_path / "seal")
    paths.seal.symlink_to(tmp_path / "seal")
    assert kinds(check(run)) == {NoSeal}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_count", EVENTS - 1),
        ("head_hash", "0" * 64),
        ("run_id", "run-2"),
        ("contract_version_id", "sha256:" + "0" * 64),
        ("manifest_digest", "sha256:" + "0" * 64),
        ("sealed_at_us", 1),
        ("harness_version", "9"),
        ("trust_limits", "none whatsoever"),
        ("public_key", "no key"),
    ],
)
def test_edited_payload_in_the_envelope_is_detected(run: SealedRun, field: str, value: object) -> None:
    edit_statement(run[0], lambda statement: statement["predicate"].update({field: value}))
    report = check(run)
    assert report.signer == NoSigner()
    assert BadSignature in kinds(report)


def test_dropped_subject_is_detected(run: SealedRun) -> None:
    edit_statement(run[0], lambda statement: statement["subject"].pop())
    expected: set[type[object]] = {BadSignature, FileAddedAfterSealing}
    assert kinds(check(run)) == expected


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda e: e.update(signatures=[]), id="stripped"),
        pytest.param(lambda e: e.pop("signatures"), id="no member"),
        pytest.param(lambda e: e["signatures"].append(e["signatures"][0]), id="doubled"),
        pytest.param(lambda e: e["signatures"][0].update(keyid=""), id="no key id"),
        pytest.param(lambda e: e.update(payloadType="application/json"), id="other payload type"),
        pytest.param(lambda e: e.update(payload="!!!"), id="payload is not base64"),
        pytest.param(lambda e: e.update(payload="e30="), id="empty statement"),
        pytest.param(lambda e: e.update(payload="W10="), id="statement is a list"),
        pytest.param(lambda e: e.update(extra=1), id="unknown member"),
    ],
)
def test_stripped_or_misshapen_envelope_is_malformed(
    run: SealedRun, edit: Callable[[dict[str, Any]], None]
) -> None:
    edit_envelope(run[0], edit)
    assert kinds(check(run)) == {MalformedSeal}


@pytest.mark.parametrize("signature", ["", "AAAA", base64.b64encode(bytes(64)).decode()])
def test_worthless_signature_is_detected(run: SealedRun, signature: str) -> None:
    edit_envelope(run[0], lambda envelope: envelope["signatures"][0].update(sig=signature))
    assert kinds(check(run)) == {BadSignature}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00" * 100, id="zeros"),
        pytest.param(b"[" * 200_000, id="deep array"),
        pytest.param(b'{"payload":' + b"[" * 200_000, id="deep member"),
        pytest.param(b'{"a":' * 100_000, id="deep object"),
        pytest.param(b'{"payload":"' + b"A" * 1_000_000, id="unfinished"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(
            b'{"payload":"\\ud800","payloadType":"x","signatures":[]}',
            id="surrogate",
        ),
    ],
)
def test_hostile_bytes_are_malformed_and_nothing_worse(run: SealedRun, data: bytes) -> None:
    run[0].seal.write_bytes(data)
    assert kinds(check(run)) == {MalformedSeal}


def test_doubled_key_is_detected(run: SealedRun) -> None:
    paths, _ = run
    data = paths.seal.read_bytes()
    paths.seal.write_bytes(data.replace(b'"payloadType"', b'"payload":"e30=","payloadType"'))
    assert kinds(check(run)) == {MalformedSeal}
    paths.seal.write_bytes(data.replace(b'{"payload"', b'{"payload":"e30=","payload"'))
    assert kinds(check(run)) == {MalformedSeal}


def test_deeply_nested_statement_is_malformed(run: SealedRun) -> None:
    for payload in (b"[" * 100_000, b'{"predicateType":' + b"[" * 900 + b"]" * 900 + b"}"):
        encoded = base64.b64encode(payload).decode()
        edit_envelope(run[0], lambda envelope, encoded=encoded: envelope.update(payload=encoded))  # type: ignore[misc]
        assert kinds(check(run)) == {MalformedSeal}


def test_a_fraction_in_a_statement_is_malformed(run: SealedRun) -> None:
    def add_fraction(envelope: dict[str, Any]) -> None:
        payload = base64.b64decode(envelope["payload"]).replace(b'"sealed_at_us":', b'"sealed_at_us":0.')
        envelope["payload"] = base64.b64encode(payload).decode()

    edit_envelope(run[0], add_fraction)
    assert kinds(check(run)) == {MalformedSeal}


def test_oversized_seal_is_malformed(run: SealedRun) -> None:
    with run[0].seal.open("r+b") as stream:
        stream.truncate(65 * 1024 * 1024)
    assert kinds(check(run)) == {MalformedSeal}


def test_unknown_version_is_neither_held_nor_refuted(run: SealedRun) -> None:
    paths, key = run
    edit_statement(paths, lambda statement: statement.update(predicateType="urn:repotrial:seal:2"))
    assert kinds(check(run)) == {UnknownSealVersion}
    assert isinstance(check_run(paths, trusted_keys=[key.public_key]).seal, CouldNotBeChecked)


def test_removed_seal_is_reported(run: SealedRun) -> None:
    run[0].seal.unlink()
    assert kinds(check(run)) == {NoSeal}


def test_a_changed_byte_of_the_trace_is_detected(run: SealedRun) -> None:
    paths, key = run
    original = paths.trace.read_bytes()
    assert original.count(b"\n") == EVENTS
    with paths.trace.open("r+b", buffering=0) as stream:
        for position, byte in sample(list(enumerate(original)), 300):
            os.pwrite(stream.fileno(), bytes([byte ^ 1 << position % 8]), position)
            report = check_run(paths, trusted_keys=[key.public_key]).seal_report
            assert any(isinstance(problem, FileChanged) for problem in report.problems), position
            os.pwrite(stream.fileno(), bytes([byte]), position)
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted


def test_a_changed_byte_of_the_manifest_and_the_seal_is_detected(run: SealedRun) -> None:
    paths, key = run
    for path in (paths.manifest, paths.seal):
        original = path.read_bytes()
        with path.open("r+b", buffering=0) as stream:
            for position, byte in sample(list(enumerate(original)), 300):
                os.pwrite(stream.fileno(), bytes([byte ^ 1 << position % 8]), position)
                assert not check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted, (
                    path.name,
                    position,
                )
                os.pwrite(stream.fileno(), bytes([byte]), position)
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_trusted
