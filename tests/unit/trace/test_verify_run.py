from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial.signing import SigningKey
from repotrial.trace import (
    AspectVerdict,
    CheckEntryPoint,
    CouldNotBeChecked,
    DependencySpecification,
    DoesNotHold,
    EntryPoints,
    Harness,
    Holds,
    Intervention,
    OnAlert,
    OnDecision,
    Pause,
    RunFacts,
    RunPaths,
    RunVerification,
    Termination,
    TraceTruncated,
    check_run,
    seal_run,
)
from support.run_directories import (
    RunBuilder,
    append_unknown_event,
    build_facts,
    build_run,
    build_sealed_run,
)

_UNKNOWN = Unknown(reason="nobody looked")
_UNIT = CheckEntryPoint(check_id="unit", command="pytest")


def verify(paths: RunPaths) -> RunVerification:
    return check_run(paths, trusted_keys=None)


def texts(verdict: AspectVerdict) -> list[str]:
    assert not isinstance(verdict, Holds)
    return [finding.text for finding in verdict.findings]


def test_a_sealed_run_holds_in_all_aspects(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    verification = check_run(paths, trusted_keys=[key.public_key])
    assert verification.holds
    assert verification.chain_report.count == 21
    assert verification.seal_report.is_trusted


def test_without_a_key_only_the_signer_is_open(tmp_path: Path) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    verification = verify(paths)
    assert isinstance(verification.seal, CouldNotBeChecked)
    assert "no public key was given" in texts(verification.seal)[0]
    assert verification.chain == verification.completeness == verification.identity == Holds()
    assert not verification.holds


def test_an_unknown_signer_does_not_hold(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    verdict = check_run(paths, trusted_keys=[]).seal
    assert isinstance(verdict, DoesNotHold)
    assert key.key_id in texts(verdict)[0]


def test_a_run_that_crashed_gets_an_honest_report(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("act")
    builder.writer.close()
    with builder.paths.trace.open("ab") as stream:
        stream.write(b'{"actor":"agent","ha')
    verification = verify(builder.paths)
    assert texts(verification.chain)[0].startswith("truncated: ")
    assert [type(problem).__name__ for problem in verification.seal_report.problems] == ["NoSeal"]
    assert isinstance(verification.seal, DoesNotHold)
    assert verification.identity == Holds()
    assert texts(verification.completeness) == [
        "expected a termination event, found none: the run did not come to its end",
        "check unit: expected an event of its execution, found none",
    ]


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_missing_directory_gets_a_report_too(tmp_path: Path, exists: bool) -> None:  # noqa: FBT001 -- a table
    paths = RunPaths(tmp_path / "run")
    if exists:
        paths.root.mkdir()
    verification = verify(paths)
    assert isinstance(verification.chain, CouldNotBeChecked)
    assert isinstance(verification.seal, DoesNotHold)
    assert isinstance(verification.completeness, CouldNotBeChecked)
    assert isinstance(verification.identity, CouldNotBeChecked)


def test_a_changed_event_is_named(tmp_path: Path) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    paths.trace.write_bytes(paths.trace.read_bytes().replace(b"I run ls", b"I run rm"))
    verification = verify(paths)
    assert isinstance(verification.chain, DoesNotHold)
    assert verification.chain.findings[0].seq == 5
    assert isinstance(verification.seal, DoesNotHold)
    assert isinstance(verification.completeness, DoesNotHold)


def test_a_removed_blob_is_named_with_its_event(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    blobs = sorted(path for path in paths.blobs.rglob("*") if path.is_file())
    blobs[0].unlink()
    blobs[1].write_bytes(b"other")
    verdict = verify(paths).completeness
    assert isinstance(verdict, DoesNotHold)
    assert {finding.seq for finding in verdict.findings} == {7, 16}
    assert all("/blobs/" in finding.text for finding in verdict.findings)


def test_phases_out_of_order_are_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("act")
    builder.enter("brief")
    builder.end()
    builder.enter("accept")
    builder.accept()
    verdict = verify(builder.finish()).completeness
    assert isinstance(verdict, DoesNotHold)
    assert [(finding.seq, finding.text) for finding in verdict.findings] == [
        (2, "expected a phase after act, found brief")
    ]


def test_a_phase_that_does_not_follow_the_last_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("brief")
    builder._phase = "set-up"
    builder.enter("act")
    builder.end()
    builder.enter("accept")
    builder.accept()
    assert texts(verify(builder.finish()).completeness) == [
        "expected a change from brief, found one from set-up"
    ]


def test_an_intervention_without_its_alert_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    alert = builder.alert()
    builder.add(Intervention(action=Pause(), basis=OnAlert(alert=alert.seq), effective=True))
    builder.add(Intervention(action=Pause(), basis=OnAlert(alert=0), effective=True))
    builder.add(Intervention(action=Pause(), basis=OnAlert(alert=99), effective=True))
    builder.add(Intervention(action=Pause(), basis=OnDecision(decision=alert.seq), effective=True))
    builder.end()
    builder.enter("accept")
    builder.accept()
    verdict = verify(builder.finish()).completeness
    assert isinstance(verdict, DoesNotHold)
    assert [finding.seq for finding in verdict.findings] == [3, 4, 5]


def test_a_check_without_its_event_makes_the_run_incomplete(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    builder.enter("accept")
    builder.accept(subject="reference")
    builder.accept(variant="twins")
    paths = builder.finish()
    assert texts(verify(paths).completeness) == ["check unit: expected an event of its execution, found none"]


def test_a_check_that_the_manifest_does_not_list_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    builder.enter("accept")
    builder.accept()
    builder.accept("easier")
    assert texts(verify(builder.finish()).completeness) == [
        "check easier: expected only checks of the manifest, found this one"
    ]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ((2,), ["check unit: expected attempt 1, found attempt 2"]),
        ((1, 3), ["check unit: expected attempt 2, found attempt 3"]),
        ((1, 1), ["check unit: expected attempt 2, found attempt 1"]),
    ],
)
def test_an_attempt_that_was_left_out_is_named(
    tmp_path: Path, attempts: tuple[int, ...], expected: list[str]
) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    builder.enter("accept")
    for attempt in attempts:
        builder.accept(attempt=attempt)
    assert texts(verify(builder.finish()).completeness) == expected


def test_attempts_are_counted_for_each_tree_and_variant(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    builder.enter("accept")
    builder.accept(variant="twins")
    builder.accept(attempt=1)
    builder.accept(subject="reference")
    builder.accept(attempt=2)
    assert verify(builder.finish()).completeness == Holds()


def test_a_verdict_outside_of_acceptance_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("act")
    builder.accept(subject="snapshot")
    builder.accept()
    builder.end()
    assert texts(verify(builder.finish()).completeness) == [
        "check unit: expected an execution in the phase accept, found act"
    ]


def test_an_agent_that_acts_after_its_end_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("act")
    builder.end()
    late = builder.tool()
    builder.enter("accept")
    later = builder.tool()
    builder.accept()
    verdict = verify(builder.finish()).completeness
    assert isinstance(verdict, DoesNotHold)
    assert [finding.seq for finding in verdict.findings] == [late.seq, later.seq]
    assert texts(verdict)[0] == "expected nothing of the agent after acting has ended, found tool-invocation"


def test_a_second_termination_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    builder.end()
    builder.enter("accept")
    builder.accept()
    assert texts(verify(builder.finish()).completeness) == ["expected one termination, found another"]


def test_an_early_termination_points_at_what_led_to_it(tmp_path: Path) -> None:
    for name, evidence in {"with": (1,), "without": (), "other": (0,)}.items():
        builder = RunBuilder(tmp_path / name)
        assert builder.alert().seq == 1
        builder.add(
            Termination(
                category="circuit-breaker",
                nature="resource",
                code="cost-cap",
                rationale="the cap was reached",
                evidence=evidence,
            )
        )
        builder.enter("accept")
        builder.accept()
        verdict = verify(builder.finish()).completeness
        if name == "with":
            assert verdict == Holds()
        else:
            assert "that led to circuit-breaker, found none" in texts(verdict)[0]


def test_dropping_without_a_closing_count_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.add(TraceTruncated(reason="run-budget", limit_bytes=1, dropped=(), final=False))
    builder.end()
    builder.enter("accept")
    builder.accept()
    assert texts(verify(builder.finish()).completeness) == [
        "expected a closing count of what the byte budget dropped, found none"
    ]


def test_artifacts_of_a_check_without_an_event_are_named(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    (paths.acceptance / "e2e").mkdir()
    assert texts(verify(paths).completeness) == [
        "check e2e: expected an event, found only a folder in acceptance/"
    ]


def test_a_missing_termination_is_named(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.enter("accept")
    builder.accept()
    assert texts(verify(builder.finish()).completeness) == [
        "expected a termination event, found none: the run did not come to its end"
    ]


def test_a_manifest_that_does_not_list_the_checks_is_not_complete(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.end()
    paths = builder.finish()
    facts: RunFacts = builder.manifest
    unknown = Unknown(reason="not recorded")
    points = EntryPoints(install=(), build=(), acceptance=unknown)
    changed = msgspec.structs.replace(
        facts, harness=Harness(version="0.1.0", entry_points=points)
    ).build_manifest()
    paths.manifest.write_bytes(msgspec.json.encode(changed, order="sorted"))
    verification = verify(paths)
    assert "found unknown: not recorded" in texts(verification.completeness)[0]
    assert texts(verification.identity)[0].startswith("manifest digest: ")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("repository", _UNKNOWN, ["repository"]),
        ("environment", _UNKNOWN, ["environment"]),
        ("dependencies", DependencySpecification(lockfiles=_UNKNOWN, mirrors=()), ["dependencies.lockfiles"]),
        (
            "harness",
            Harness(
                version="0.1.0",
                entry_points=EntryPoints(install=_UNKNOWN, build=_UNKNOWN, acceptance=(_UNIT,)),
            ),
            ["harness.entry_points.install", "harness.entry_points.build"],
        ),
    ],
)
def test_a_run_that_is_not_bound_does_not_verify(
    tmp_path: Path, field: str, value: Any, named: list[str]
) -> None:
    facts = msgspec.structs.replace(build_facts(), **{field: value})
    builder = RunBuilder(tmp_path / "run", manifest=facts.build_manifest())
    verification = verify(builder.finish())
    assert isinstance(verification.identity, CouldNotBeChecked)
    assert texts(verification.identity) == [
        f"{name}: expected a fact that binds the run, found unknown: nobody looked" for name in named
    ]


def test_other_redaction_rules_than_the_manifest_names_break_identity(tmp_path: Path) -> None:
    facts = msgspec.structs.replace(build_facts(), redaction_rules_id=digest_bytes(b"stricter rules"))
    builder = RunBuilder(tmp_path / "run", manifest=facts.build_manifest())
    verdict = verify(builder.finish()).identity
    assert isinstance(verdict, DoesNotHold)
    assert texts(verdict)[0].startswith("redaction rules: expected ")


def test_a_manifest_of_another_run_breaks_identity(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    other = build_run(tmp_path / "other", run_id="run-2")
    paths.manifest.write_bytes(other.manifest.read_bytes())
    verification = verify(paths)
    assert isinstance(verification.identity, DoesNotHold)
    assert (
        texts(verification.identity)[0]
        == "run id: expected run-2 as in the manifest, found run-1 in the trace"
    )
    assert isinstance(verification.chain, DoesNotHold)


def test_an_unreadable_manifest_leaves_identity_open(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    paths.manifest.write_text("{}")
    verification = verify(paths)
    assert isinstance(verification.identity, CouldNotBeChecked)
    assert isinstance(verification.completeness, DoesNotHold)
    assert verification.chain == Holds()


def test_a_seal_that_disagrees_with_the_manifest_breaks_identity(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    other = build_run(tmp_path / "other", run_id="run-2")
    seal_run(other, SigningKey.load(tmp_path / "key"), harness_version="0.1.0")
    paths.seal.write_bytes(other.seal.read_bytes())
    verification = verify(paths)
    assert isinstance(verification.identity, DoesNotHold)
    assert any("found run-2 in the seal" in text for text in texts(verification.identity))
    assert any("manifest digest" in text for text in texts(verification.identity))


def test_events_of_an_unknown_type_leave_completeness_open(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    append_unknown_event(paths)
    verification = verify(paths)
    assert verification.chain == Holds()
    assert texts(verification.completeness) == ["event type from-the-future is not known (1 events)"]
    assert isinstance(verification.completeness, CouldNotBeChecked)


def test_no_more_findings_are_listed_than_people_read(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    for _ in range(150):
        builder.add(Intervention(action=Pause(), basis=OnAlert(alert=0), effective=True))
    assert len(texts(verify(builder.finish()).completeness)) == 100
