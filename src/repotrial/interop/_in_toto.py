"""Runs as in-toto attestations with the test-result predicate, each signed in a DSSE envelope.

A file is a bundle: one envelope in each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.interop._model import Exported, Loss, list_words
from repotrial.score import JudgedRun, find_status
from repotrial.signing import SigningKey, StatementKind

_PREDICATE_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"
_LOSSES: Final = (
    Loss(what="the conversation and all events", why="the predicate lists tests alone"),
    Loss(
        what="the difference of failure, error and invalid", why="all are FAILED; the status is an annotation"
    ),
    Loss(what="the score, tags and costs", why="the predicate has no place for them"),
)

ATTESTATION_INVALID = ErrorCode(
    "attestation-invalid",
    EvidenceError,
    "A document is no signed in-toto attestation of a test result.",
    hint="take the file that `repotrial run export in-toto` wrote",
)


class _Resource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    annotations: dict[str, str | list[str]]
    digest: dict[str, str]
    name: str


class TestResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The predicate: what was tested, by which contract, and what came of each check."""

    __test__ = False  # no test class, whatever the name says

    configuration: tuple[_Resource, ...]
    failed_tests: tuple[str, ...]
    passed_tests: tuple[str, ...]
    result: Literal["PASSED", "FAILED"]


_KIND: Final = StatementKind(
    predicate=TestResult,
    predicate_type=_PREDICATE_TYPE,
    invalid=ATTESTATION_INVALID,
    unknown=ATTESTATION_INVALID,
)


def build_in_toto(runs: Sequence[JudgedRun], key: SigningKey) -> Exported:
    """A bundle of attestations, signed with this machine's key."""
    lines = [_KIND.sign(_build_result(run), subjects=_list_subjects(run), key=key) for run in runs]
    data = b"".join(line + b"\n" for line in lines)
    return Exported(name="repotrial.intoto.jsonl", data=data, runs=len(runs), losses=_LOSSES)


def _list_subjects(run: JudgedRun) -> dict[str, Digest]:
    """What was tested; of a run without a change, what it was bound to."""
    evidence = run.evidence
    if isinstance(evidence.change, bytes):
        return {"change.patch": digest_bytes(evidence.change)}
    manifest = evidence.manifest_digest
    return {"manifest.json": digest_bytes(b"") if isinstance(manifest, Unknown) else manifest}


def _build_result(run: JudgedRun) -> TestResult:
    identity = run.card.identity
    status = find_status(run.card)
    version = identity.contract_version_id
    annotations: dict[str, str | list[str]] = {
        "status": status,
        "run_id": run.entry.run_id or "unknown",
        "agent": run.entry.agent or "unknown",
        "head_hash": identity.head_hash if isinstance(identity.head_hash, str) else "unknown",
        "lost": list_words(_LOSSES),
    }
    contract = _Resource(
        name=f"contract:{run.entry.contract or 'unknown'}",
        digest={} if isinstance(version, Unknown) else {"sha256": version.removeprefix("sha256:")},
        annotations=annotations,
    )
    checks = run.card.checks
    return TestResult(
        configuration=(contract,),
        failed_tests=tuple(check.check for check in checks if check.verdict != "passed"),
        passed_tests=tuple(check.check for check in checks if check.verdict == "passed"),
        result="PASSED" if status == "success" else "FAILED",
    )
