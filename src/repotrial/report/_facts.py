"""Who, what, where from: the facts of a page, each with its name."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial.contract import ContractRecord, RunSpec
from repotrial.report._record import Record
from repotrial.report._render import show_duration
from repotrial.score import (
    AgentIdentity,
    Evidence,
    RunReport,
    ScoreCard,
    describe_cost,
    describe_model_source,
    find_upstream,
)
from repotrial.trace import (
    AspectVerdict,
    CouldNotBeChecked,
    DoesNotHold,
    GitIdentity,
    Holds,
    ImageEnvironment,
    Manifest,
    RunVerification,
)

_US_PER_SECOND = 1_000_000
_SHORT = 12
_MOST = 40
_ASPECT_WORDS: dict[type[AspectVerdict], tuple[str, str, str]] = {
    Holds: ("✓", "holds", "good"),
    DoesNotHold: ("✗", "does not hold", "bad"),
    CouldNotBeChecked: ("!", "could not be checked", "open"),
}

Value: TypeAlias = str | int | Unknown | NotComputable


class _Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A name and what belongs to it."""

    name: str
    value: Value
    is_code: bool = False


class _Aspect(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict of the check of the record."""

    name: str
    icon: str
    word: str
    tone: str
    findings: tuple[tuple[int | None, str], ...]
    """Event and text."""


class _ShownCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Something to type."""

    purpose: str
    line: str


def build_identity(evidence: Evidence, card: ScoreCard, report: RunReport, record: Record) -> list[_Fact]:
    """Who worked on what, how long, for how much."""
    spec = evidence.spec
    agent = card.identity.agent
    version = card.identity.contract_version_id
    upstream = find_upstream(evidence)
    answered = (
        [] if upstream is None else [_Fact(name="Answered by", value=describe_model_source(upstream).words)]
    )
    return [
        _Fact(name="Contract", value=card.identity.contract_id),
        _Fact(name="Kind", value=_contract_kind(evidence)),
        _Fact(name="Version", value=_shorten(version), is_code=True),
        _Fact(name="Agent", value=_name_agent(agent)),
        _Fact(name="Model", value=agent if isinstance(agent, Unknown) else agent.model),
        *answered,
        _Fact(name="Replicate", value=spec.replicate if isinstance(spec, RunSpec) else spec),
        _Fact(name="Isolation", value=report.sandbox_level),
        _Fact(name="Duration", value=_describe_duration(report, record)),
        _Fact(name="Cost", value=describe_cost(card, upstream)),
        _Fact(name="Ended by", value=_describe_end(report)),
    ]


def _contract_kind(evidence: Evidence) -> str | Unknown:
    record = evidence.record
    return record.contract.kind if isinstance(record, ContractRecord) else record


def _shorten(digest: str | Unknown) -> str | Unknown:
    return digest if isinstance(digest, Unknown) else digest.removeprefix("sha256:")[:_SHORT]


def _name_agent(agent: AgentIdentity | Unknown) -> str | Unknown:
    if isinstance(agent, Unknown):
        return agent
    return agent.name if isinstance(agent.version, Unknown) else f"{agent.name} {agent.version}"


def _describe_duration(report: RunReport, record: Record) -> str:
    parts = [f"{show_duration(record.total_us)} in all"]
    for word, value in (
        ("acting", report.durations.acting_us),
        ("acceptance", report.durations.accepting_us),
    ):
        if isinstance(value, int):
            parts.append(f"{show_duration(value)} {word}")
    return ", ".join(parts)


def _describe_end(report: RunReport) -> str | Unknown:
    end = report.termination
    if isinstance(end, Unknown):
        return end
    nature = "" if end.nature == "none" else f", {end.nature}"
    return f"{end.category}{nature}: {end.rationale or end.code}"


def build_provenance(evidence: Evidence, card: ScoreCard, report: RunReport) -> list[_Fact]:
    """What the run was bound to, and the digests by which anyone can check it."""
    trees = report.trees
    digests = [
        ("Contract version", card.identity.contract_version_id),
        ("Statement", report.statement_digest),
        ("Scoring parameters", card.identity.scoring_digest),
        ("Tree before", trees.base_tree_digest),
        ("Change", trees.change_digest),
        ("Tree after", trees.final_tree_digest),
        ("Manifest", evidence.manifest_digest),
        ("Last event", card.identity.head_hash),
        ("Comparability class", card.identity.comparability_class),
        ("Run specification", report.run_spec_id),
    ]
    coded = [_Fact(name=name, value=value, is_code=True) for name, value in digests]
    upstream = find_upstream(evidence)
    if upstream is not None:
        coded.append(_Fact(name="Answered for the model", value=upstream, is_code=True))
    manifest = evidence.manifest
    if isinstance(manifest, Unknown):
        return [_Fact(name="Manifest file", value=manifest), *coded]
    return [*_describe_manifest(manifest), *coded]


def _describe_manifest(manifest: Manifest) -> list[_Fact]:
    configuration = manifest.configuration
    started = datetime.fromtimestamp(manifest.started_at_us // _US_PER_SECOND, tz=UTC)
    return [
        _Fact(name="Run", value=manifest.run_id),
        _Fact(name="Started", value=f"{started:%Y-%m-%d %H:%M:%S} UTC"),
        _Fact(name="RepoTrial", value=manifest.harness.version),
        _Fact(name="Repository", value=_describe_repository(manifest)),
        _Fact(name="Environment", value=_describe_environment(manifest)),
        _Fact(name="Lock files", value=_describe_lockfiles(manifest)),
        _Fact(name="Toolchain", value=_join(manifest.toolchain)),
        _Fact(name="Package managers", value=_join(manifest.package_managers)),
        _Fact(name="Machine", value=_machine(manifest)),
        _Fact(name="Locale, time zone", value=f"{_say(manifest.locale)}, {_say(manifest.time_zone)}"),
        _Fact(name="Network, stages", value=f"{configuration.network}, {configuration.stages}"),
        _Fact(name="Limits", value=_join(configuration.limits)),
        _Fact(name="Meters", value=_join(configuration.meters)),
        _Fact(name="Root seed", value=manifest.seeds.root),
        _Fact(name="Redaction rules", value=manifest.redaction_rules_id, is_code=True),
    ]


def _machine(manifest: Manifest) -> str:
    return f"{_say(manifest.cpu_class)}, {_say(manifest.memory_class)}"


def _describe_repository(manifest: Manifest) -> str | Unknown:
    repository = manifest.repository
    match repository:
        case Unknown():
            return repository
        case GitIdentity():
            return f"git commit {repository.commit}"
        case _:
            return str(repository.__struct_config__.tag)


def _describe_environment(manifest: Manifest) -> str | Unknown:
    environment = manifest.environment
    match environment:
        case Unknown():
            return environment
        case ImageEnvironment():
            return f"image {environment.reference} ({environment.image_digest})"
        case _:
            return (
                f"host ({_shorten(environment.observed_id)}): the contract pins constraints, "
                "the id is what this run had"
            )


def _describe_lockfiles(manifest: Manifest) -> str | Unknown:
    lockfiles = manifest.dependencies.lockfiles
    if isinstance(lockfiles, Unknown):
        return lockfiles
    return _list(f"{lockfile.path} ({_shorten(lockfile.digest)})" for lockfile in lockfiles)


def _join(values: Mapping[str, str | Unknown]) -> str:
    return _list(f"{name} {_say(value)}" for name, value in sorted(values.items()))


def _list(items: Iterable[str]) -> str:
    listed = list(items)
    more = f" and {len(listed) - _MOST} more" if len(listed) > _MOST else ""
    return ", ".join(listed[:_MOST]) + more or "none"


def _say(value: str | Unknown) -> str:
    return f"unknown ({value.reason})" if isinstance(value, Unknown) else value


def build_seal_sentence(evidence: Evidence) -> str:
    """What was found out about the seal while the page was made, and what was not."""
    report = evidence.verification.seal_report
    if evidence.seal == "absent":
        return "There is no seal: nobody vouches for these files."
    if not report.is_intact:
        return "The seal does not hold: the files are not those that were sealed, or it is no valid seal."
    key_id = getattr(report.signer, "key_id", "")
    return (
        f"The files are those that the holder of key {key_id[:16]} sealed. Whose key that is was not checked."
    )


def build_aspects(verification: RunVerification, root: Path) -> list[_Aspect]:
    """Chain, seal, completeness and identity, as found; the same wherever the run directory `root` lies."""
    return [
        _build_aspect(name, getattr(verification, name), root)
        for name in ("chain", "seal", "completeness", "identity")
    ]


def _build_aspect(name: str, verdict: AspectVerdict, root: Path) -> _Aspect:
    icon, word, tone = _ASPECT_WORDS[type(verdict)]
    found = () if isinstance(verdict, Holds) else verdict.findings[:_MOST]
    findings = tuple((finding.seq, finding.text.replace(f"{root}/", "")) for finding in found)
    return _Aspect(name=name, icon=icon, word=word, tone=tone, findings=findings)


def build_commands(run_name: str) -> list[_ShownCommand]:
    """What to type to see for oneself; the run directory is named as it was."""
    name = shlex.quote(run_name)
    return [
        _ShownCommand(
            purpose="Was anything changed, and who sealed it?",
            line=f"repotrial run verify {name} --key public-key.pem",
        ),
        _ShownCommand(
            purpose="Compute the verdict again, from the evidence", line=f"repotrial run score {name}"
        ),
        _ShownCommand(
            purpose="Rebuild the change from the trace and judge it again",
            line=f"repotrial run replay {name} --contract CONTRACT_DIR",
        ),
        _ShownCommand(
            purpose="All that the agent's program and the checks printed, as far as it was kept",
            line=f"repotrial run show {name} --output all",
        ),
        _ShownCommand(purpose="Every event, in a line each", line=f"repotrial run show {name}"),
    ]
