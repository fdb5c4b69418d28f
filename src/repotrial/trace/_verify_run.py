"""Verification of a run directory: chain, seal, completeness and identity, each with its own verdict.

Pure and streaming: a copied directory on another machine is enough, and nothing that it holds ends in an
error. A run that was never sealed (the machine died) gets a report that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest
from repotrial._core.errors import EvidenceError
from repotrial.signing import (
    NoSigner,
    PublicKey,
    SignedStatement,
    TrustedSigner,
    UncheckedSigner,
    UnknownSigner,
)
from repotrial.trace._completeness import RunFinding, build_finding, iter_completeness_problems
from repotrial.trace._custody import CustodyReport, read_custody
from repotrial.trace._manifest import Manifest, iter_unbound_fields
from repotrial.trace._manifest_file import load_manifest
from repotrial.trace._payloads.course import RunOpened
from repotrial.trace._reader import find_bound_manifest, iter_events
from repotrial.trace._rundir import RunPaths, digest_regular
from repotrial.trace._seal import Seal
from repotrial.trace._seal_check import (
    BadSignature,
    CustodyBroken,
    FileAddedAfterSealing,
    FileChanged,
    FileMissing,
    FolderUnreadable,
    MalformedSeal,
    NoSeal,
    NotAPlainFile,
    OtherRun,
    RunSealProblem,
    SealReport,
    TraceCutOff,
    UnknownSealVersion,
    check_signed_seal,
    read_seal,
)
from repotrial.trace._verify_chain import (
    ChainReport,
    Intact,
    Tampered,
    Truncated,
    UnknownVersion,
    Unverifiable,
    check_chain,
)

_MAX_FINDINGS = 100
"""More say nothing new, and a forged trace could have a million."""


class Holds(msgspec.Struct, frozen=True, kw_only=True, tag_field="verdict", tag="holds"):
    """Checked, and as it should be."""


class DoesNotHold(msgspec.Struct, frozen=True, kw_only=True, tag_field="verdict", tag="does-not-hold"):
    """Checked, and wrong."""

    findings: tuple[RunFinding, ...]


class CouldNotBeChecked(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="verdict", tag="could-not-be-checked"
):
    """Neither shown nor refuted."""

    findings: tuple[RunFinding, ...]


AspectVerdict: TypeAlias = Holds | DoesNotHold | CouldNotBeChecked


class RunVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown about a run directory."""

    chain: AspectVerdict
    """Every event is as it was written."""
    seal: AspectVerdict
    """A trusted key signed exactly these files."""
    completeness: AspectVerdict
    """Nothing that a verdict rests on is missing (P15)."""
    identity: AspectVerdict
    """Trace, manifest and seal speak of the same run of the same contract, and it is bound (C2, P2)."""
    chain_report: ChainReport
    seal_report: SealReport
    manifest: Manifest | Unknown
    """What was checked; unknown if it cannot be read."""
    custody: CustodyReport = CustodyReport()
    """What was taken out after sealing."""

    @property
    def holds(self) -> bool:
        """Whether all four were checked and hold."""
        return all(isinstance(v, Holds) for v in (self.chain, self.seal, self.completeness, self.identity))


def check_run(paths: RunPaths, *, trusted_keys: Collection[PublicKey] | None) -> RunVerification:
    """Check everything about a run directory that can be checked without the machine that made it."""
    signed = read_seal(paths)
    custody = read_custody(paths, trusted_keys)
    manifest = _load_manifest(paths)
    run_id = manifest.run_id if isinstance(manifest, Manifest) else None
    found = manifest if isinstance(manifest, Manifest) else build_finding(manifest.reason)
    if isinstance(signed, SignedStatement):
        chain = check_chain(paths.trace, run_id=signed.predicate.run_id, expected=signed.predicate.head)
        seal_report = check_signed_seal(
            paths, signed, trusted_keys=trusted_keys, chain=chain, custody=custody, run_id=run_id
        )
    else:
        chain = check_chain(paths.trace, run_id=run_id, expected=None)
        seal_report = SealReport(signer=NoSigner(), problems=(signed,))
    return RunVerification(
        chain=_judge_chain(chain),
        seal=_judge_seal(seal_report),
        completeness=_judge_completeness(paths, found, chain, custody.gone),
        identity=_judge_identity(paths, found, signed),
        chain_report=chain,
        seal_report=seal_report,
        manifest=manifest,
        custody=custody,
    )


def _load_manifest(paths: RunPaths) -> Manifest | Unknown:
    try:
        return load_manifest(paths.manifest)
    except EvidenceError as error:
        return Unknown(reason=error.message)


def _judge_chain(report: ChainReport) -> AspectVerdict:
    match report.status:
        case Intact():
            return Holds()
        case Tampered(first_bad=bad):
            return DoesNotHold(findings=(build_finding(f"tampered: {bad.detail}", seq=bad.seq),))
        case Truncated(first_bad=bad):
            return DoesNotHold(findings=(build_finding(f"truncated: {bad.detail}", seq=bad.seq),))
        case Unverifiable(first_bad=bad):
            return CouldNotBeChecked(findings=(build_finding(bad.detail, seq=bad.seq),))
        case UnknownVersion(schema=schema):
            return CouldNotBeChecked(
                findings=(build_finding(f"expected a version that we know, found {schema}"),)
            )


def _judge_seal(report: SealReport) -> AspectVerdict:
    findings = tuple(build_finding(render_seal_problem(problem)) for problem in report.problems)
    match report.problems:
        case (UnknownSealVersion(),):
            return CouldNotBeChecked(findings=findings)
        case ():
            return _judge_signer(report)
        case _:
            return DoesNotHold(findings=findings)


def _judge_signer(report: SealReport) -> AspectVerdict:
    match report.signer:
        case TrustedSigner():
            return Holds()
        case UnknownSigner(key_id=key_id):
            text = (
                f"expected a trusted key, found a signature by the unknown key {key_id}: anyone can sign anew"
            )
            return DoesNotHold(findings=(build_finding(text),))
        case UncheckedSigner(key_id=key_id):
            text = (
                f"the files are as sealed by the key {key_id}; no public key was given to check whose it is"
            )
            return CouldNotBeChecked(findings=(build_finding(text),))
        case NoSigner():
            return DoesNotHold(findings=(build_finding("expected a valid signature, found none"),))


def render_seal_problem(problem: RunSealProblem) -> str:
    """A problem in a sentence."""
    match problem:
        case NoSeal() | MalformedSeal() | UnknownSealVersion() | FolderUnreadable() | CustodyBroken():
            return problem.reason
        case BadSignature():
            return f"expected a valid signature by the key {problem.key_id}, found another"
        case OtherRun():
            return f"expected a seal of run {problem.found_run_id}, found one of {problem.sealed_run_id}"
        case TraceCutOff():
            return f"expected {problem.sealed_count} events, found {problem.found_count}"
        case FileChanged() | FileMissing() | FileAddedAfterSealing() | NotAPlainFile():
            return _render_file_problem(problem)


def _render_file_problem(problem: FileChanged | FileMissing | FileAddedAfterSealing | NotAPlainFile) -> str:
    match problem:
        case FileChanged():
            return f"{problem.name}: expected {problem.expected}, found {problem.found}"
        case FileMissing():
            return f"{problem.name}: expected the sealed file, found none"
        case FileAddedAfterSealing():
            return f"{problem.name}: expected only sealed files, found another one"
        case NotAPlainFile():
            return f"{problem.name}: expected a plain file that can be read, found none"


def _judge_completeness(
    paths: RunPaths, manifest: Manifest | RunFinding, chain: ChainReport, gone: frozenset[str]
) -> AspectVerdict:
    if isinstance(chain.status, UnknownVersion) or chain.count == 0:
        return CouldNotBeChecked(findings=(build_finding("expected a trace that can be read, found none"),))
    try:
        found = iter_completeness_problems(paths, manifest, verified_count=chain.count, gone=gone)
        problems = tuple(islice(found, _MAX_FINDINGS))
    except EvidenceError as error:
        return CouldNotBeChecked(findings=(build_finding(error.message),))
    if problems:
        return DoesNotHold(findings=problems)
    doubts = [
        build_finding(f"event type {t.type} is not known ({t.count} events)") for t in chain.unknown_types
    ]
    if not isinstance(chain.status, Intact):
        doubts.append(build_finding(f"only the first {chain.count} events hold"))
    return CouldNotBeChecked(findings=tuple(doubts)) if doubts else Holds()


def _judge_identity(
    paths: RunPaths,
    manifest: Manifest | RunFinding,
    signed: SignedStatement[Seal] | NoSeal | MalformedSeal | UnknownSealVersion,
) -> AspectVerdict:
    if isinstance(manifest, RunFinding):
        return CouldNotBeChecked(findings=(manifest,))
    try:
        manifest_digest = digest_regular(paths.manifest)
        first = next(iter_events(paths.trace, allow_torn_tail=True), None)
        bound = find_bound_manifest(iter_events(paths.trace, allow_torn_tail=True))
    except EvidenceError as error:
        return CouldNotBeChecked(findings=(build_finding(error.message),))
    if first is None or not isinstance(first.payload, RunOpened):
        return DoesNotHold(
            findings=(build_finding("expected run-opened as the first event, found none", seq=0),)
        )
    problems = [*_iter_opening_problems(first.payload, bound, manifest, manifest_digest)]
    if isinstance(signed, SignedStatement):
        problems += _iter_seal_problems(signed.predicate, manifest, manifest_digest)
    if problems:
        return DoesNotHold(findings=tuple(problems))
    unbound = tuple(
        build_finding(f"{field}: expected a fact that binds the run, found unknown: {unknown.reason}")
        for field, unknown in iter_unbound_fields(manifest)
    )
    return CouldNotBeChecked(findings=unbound) if unbound else Holds()


def _iter_opening_problems(
    opened: RunOpened, bound: Digest | None, manifest: Manifest, manifest_digest: Digest
) -> Iterator[RunFinding]:
    yield from _compare("run id", ("manifest", manifest.run_id), ("trace", opened.run_id))
    yield from _compare("manifest digest", ("file", manifest_digest), ("trace", bound or "none"))
    yield from _compare(
        "harness version", ("manifest", manifest.harness.version), ("trace", opened.harness_version)
    )
    rules_id = manifest.redaction_rules_id
    if not isinstance(rules_id, Unknown):
        yield from _compare("redaction rules", ("manifest", rules_id), ("trace", opened.redaction_rules_id))


def _iter_seal_problems(seal: Seal, manifest: Manifest, manifest_digest: Digest) -> Iterator[RunFinding]:
    yield from _compare("run id", ("manifest", manifest.run_id), ("seal", seal.run_id))
    yield from _compare("manifest digest", ("file", manifest_digest), ("seal", seal.manifest_digest))
    yield from _compare(
        "contract version id", ("manifest", manifest.contract.version_id), ("seal", seal.contract_version_id)
    )


def _compare(fact: str, one: tuple[str, str], other: tuple[str, str]) -> Iterator[RunFinding]:
    """A finding if two documents do not say the same; each comes as its name and its value."""
    if one[1] != other[1]:
        yield build_finding(
            f"{fact}: expected {one[1]} as in the {one[0]}, found {other[1]} in the {other[0]}"
        )
