"""Exports: each file is what its own library accepts, says what was judged, and lists what it lost."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import atif
import junitparser
import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from repotrial._core.digest import digest_bytes
from repotrial.interop import Exported, ExportFormat, build_exports
from repotrial.score import JudgedRun, find_status, judge_run
from repotrial.signing import SigningKey
from repotrial.trace import RunPaths
from support.run_directories import build_sealed_run
from support.score_runs import FAILED, HUNG, PATCH, ScoreRun, write_run

_STATUSES = {"success": "C", "failure": "I", "errored": "I", "invalid": "N"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[JudgedRun]:
    """One run of each status, in the order of `_STATUSES`."""
    place = tmp_path_factory.mktemp("runs")
    unfinished = ScoreRun(place / "invalid")
    unfinished.end_acting()
    roots = [
        write_run(place / "success"),
        write_run(place / "failure", {"unit": FAILED}),
        write_run(place / "errored", {"unit": HUNG}),
        unfinished.finish(),
    ]
    return [judge_run(root) for root in roots]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return SigningKey.load(tmp_path_factory.mktemp("key") / "key.pem")


def _export(form: ExportFormat, runs: list[JudgedRun], key: SigningKey | None = None) -> Exported:
    (exported,) = build_exports(form, runs, key)
    return exported


def test_junit_is_read_back_by_its_reader_with_every_outcome(runs: list[JudgedRun]) -> None:
    exported = _export("junit", runs)
    read = junitparser.JUnitXml.fromstring(exported.data)
    suites = list(read)
    assert len(suites) == len(runs)
    words = {"failed": junitparser.Failure, "errored": junitparser.Error}
    for suite, run in zip(suites, runs, strict=True):
        expected: list[tuple[str, str]] = [(gate.gate, gate.outcome) for gate in run.card.gates]
        expected += [(check.check, check.verdict) for check in run.card.checks]
        found = [(case.name, [type(result) for result in case.result]) for case in suite]
        assert found == [(name, [words[one]] if one in words else []) for name, one in expected]
        listed = suite.properties()  # type: ignore[no-untyped-call]  # so it is in the library
        properties = [(one.name, one.value) for one in listed]
        assert ("repotrial.status", find_status(run.card)) in properties
        lost = [value for name, value in properties if name == "repotrial.lost"]
        assert lost == [loss.words for loss in exported.losses]
        outcomes = [one for _, one in expected]
        assert (suite.tests, suite.failures, suite.errors) == (
            len(outcomes),
            outcomes.count("failed"),
            outcomes.count("errored"),
        )


def test_an_attestation_is_accepted_by_the_libraries_of_its_format(
    runs: list[JudgedRun], key: SigningKey
) -> None:
    exported = _export("in-toto", runs, key)
    lines = exported.data.splitlines()
    assert len(lines) == len(runs)
    verifier = SSlibKey.from_dict(key.key_id, key.signer.public_key.to_dict())
    for line, run in zip(lines, runs, strict=True):
        envelope = Envelope.from_dict(json.loads(line))
        envelope.verify([verifier], threshold=1)
        document = json.loads(envelope.payload)
        predicate = document["predicate"]
        result = json_format.ParseDict(predicate, test_result_pb2.TestResult())
        Statement(
            [json_format.ParseDict(one, _descriptor()) for one in document["subject"]],
            document["predicateType"],
            predicate,
        ).validate()
        assert result.result == ("PASSED" if find_status(run.card) == "success" else "FAILED")
        assert list(result.passed_tests) == [c.check for c in run.card.checks if c.verdict == "passed"]
        assert list(result.failed_tests) == [c.check for c in run.card.checks if c.verdict != "passed"]
        assert predicate["configuration"][0]["annotations"]["lost"] == [x.words for x in exported.losses]
    assert json.loads(base64.b64decode(json.loads(lines[0])["payload"]))["subject"] == [
        {"digest": {"sha256": digest_bytes(PATCH).removeprefix("sha256:")}, "name": "change.patch"}
    ]


def _descriptor() -> Any:
    from in_toto_attestation.v1 import resource_descriptor_pb2

    return resource_descriptor_pb2.ResourceDescriptor()


def test_a_changed_byte_breaks_an_attestation(runs: list[JudgedRun], key: SigningKey) -> None:
    from securesystemslib.exceptions import UnverifiedSignatureError

    document = json.loads(_export("in-toto", runs[:1], key).data)
    payload = base64.b64decode(document["payload"]).replace(b"PASSED", b"FAILED")
    document["payload"] = base64.b64encode(payload).decode()
    verifier = SSlibKey.from_dict(key.key_id, key.signer.public_key.to_dict())
    with pytest.raises(UnverifiedSignatureError):
        Envelope.from_dict(document).verify([verifier], threshold=1)


def test_lines_hold_the_whole_card_of_each_run(runs: list[JudgedRun]) -> None:
    header, *lines = map(json.loads, _export("jsonl", runs).data.splitlines())
    assert header["runs"] == len(runs)
    assert header["lost"]
    for line, run in zip(lines, runs, strict=True):
        assert line["row"]["status"] == find_status(run.card)
        assert line["card"]["identity"]["head_hash"] == run.card.identity.head_hash
        assert [gate["outcome"] for gate in line["card"]["gates"]] == list(run.card.gate_vector)


def test_a_trajectory_is_accepted_by_the_library_of_its_format(tmp_path: Path) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    run = judge_run(paths.root)
    exported = _export("atif", [run])
    read = atif.Trajectory.model_validate(json.loads(exported.data))
    assert read.schema_version == "ATIF-v1.8"
    assert [(step.source, step.message) for step in read.steps] == [
        ("user", "hello"),
        ("agent", "I run ls"),
        ("agent", ""),
    ]
    asked, used = read.steps[1:]
    assert asked.metrics is not None
    assert asked.metrics.completion_tokens == 3
    assert asked.model_name == "m-1"
    assert used.tool_calls is not None
    assert used.tool_calls[0].function_name == "bash"
    assert used.tool_calls[0].arguments == {"command": "ls"}
    assert used.observation is not None
    assert used.observation.results[0].content == "x" * 9000
    assert read.extra is not None
    assert read.extra["repotrial"]["lost"] == [loss.words for loss in exported.losses]
    assert "1 monitor-alert events: the format has no such step" in read.extra["repotrial"]["lost"]


def test_a_text_that_is_gone_is_named_and_not_invented(tmp_path: Path) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    for blob in paths.blobs.rglob("*"):
        if blob.is_file():
            blob.unlink()
    exported = _export("atif", [judge_run(paths.root)])
    read = atif.Trajectory.model_validate(json.loads(exported.data))
    assert read.steps[2].observation is not None
    assert read.steps[2].observation.results[0].content != "x" * 9000


def test_a_log_has_the_members_and_values_that_its_reader_wants(runs: list[JudgedRun]) -> None:
    """`tests/scenario/test_exports.py` has the reader of the format's own library read it."""
    exported = _export("inspect", runs)
    with zipfile.ZipFile(io.BytesIO(exported.data)) as archive:
        names = archive.namelist()
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        header = json.loads(archive.read("header.json"))
        samples = [json.loads(archive.read(name)) for name in names if name.startswith("samples/")]
        summaries = json.loads(archive.read("summaries.json"))
    assert {"_journal/start.json", "_journal/summaries/1.json"} <= set(names)
    assert header["eval"]["metadata"]["lost"] == [loss.words for loss in exported.losses]
    assert header["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 0.25
    assert [one["scores"]["repotrial"]["value"] for one in samples] == list(_STATUSES.values())
    assert [(one["id"], one["epoch"]) for one in summaries] == [(one["id"], one["epoch"]) for one in samples]


@pytest.mark.parametrize("form", ["atif", "inspect", "jsonl", "junit", "swebench"])
def test_the_same_runs_give_the_same_bytes(form: ExportFormat, runs: list[JudgedRun]) -> None:
    again = [judge_run(run.directory) for run in runs]
    assert build_exports(form, runs, None) == build_exports(form, again, None)


def test_the_report_of_swebench_lists_its_losses_beside_its_keys(runs: list[JudgedRun]) -> None:
    exported = _export("swebench", runs)
    document = json.loads(exported.data)
    assert document["schema_version"] == 2
    assert document["submitted_ids"] == ["wide-chars"]
    assert document["repotrial_lost"] == [loss.words for loss in exported.losses]


def test_characters_that_xml_has_no_place_for_do_not_end_an_export(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run\x1b[31m", {"unit": FAILED})
    exported = _export("junit", [judge_run(RunPaths(root).root)])
    assert len(list(junitparser.JUnitXml.fromstring(exported.data))) == 1
