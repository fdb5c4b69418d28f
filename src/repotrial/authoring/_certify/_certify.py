"""Certification (C13): everything that is tried on a contract before it may enter a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from repotrial import __version__
from repotrial._core.clock import SystemClock
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.machine_class import read_cpu_class, read_memory_class
from repotrial._core.words import Level
from repotrial.authoring._certify._cheats import build_cheats
from repotrial.authoring._certify._cheats._common import Cheat, NotApplicable, build_patch
from repotrial.authoring._certify._cheats._scene import read_scene
from repotrial.authoring._certify._file import build_procedure_digest
from repotrial.authoring._certify._items import (
    build_item,
    describe_setup,
    judge_baseline,
    judge_cheats,
    judge_network,
    judge_order,
    judge_patches,
    judge_reference,
    judge_repetition,
    judge_stability,
    judge_strength,
    judge_twins,
)
from repotrial.authoring._certify._model import (
    Certificate,
    CertificateGrade,
    CertificateItem,
    CertifiedRun,
    CheatTrial,
    MachineClass,
)
from repotrial.authoring._certify._scan import find_leaked_oracle, find_leaked_reference
from repotrial.authoring._certify._trials import (
    CertificationTrial,
    TrialResult,
    collect_results,
    end_at_failure,
    reorder_checks,
)
from repotrial.contract import LoadedContract, Policy, check_lock
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.fleet import FleetPlan, conduct_fleet
from repotrial.redaction import SecretRedactor
from repotrial.run import NoopAgent, PatchAgent, ReferenceAgent, RunSettings, Stopper
from repotrial.signing import SigningKey
from repotrial.workspace import check_sealed

_LINES: Final = 50_000
_WILDCARDS: Final = frozenset("*?[")


def build_oversized_patch(policy: Policy) -> bytes:
    """One new file with more lines than any contract allows, in the first place that may be written to."""
    lines = max(_LINES, 2 * (policy.max_lines_changed or 0))
    text = "".join(f"line {number} that the contract does not ask for\n" for number in range(lines))
    return build_patch({}, {f"{_find_folder(policy)}oversized.txt": text})


def _find_folder(policy: Policy) -> str:
    for pattern in policy.writable:
        if pattern.endswith("/**") and _WILDCARDS.isdisjoint(pattern[:-3]) and not pattern.startswith("!"):
            return f"{pattern[:-3].strip('/')}/"
    return ""


_QUICK: Final = frozenset(
    {
        ("forced-pass-hook", "open"),
        ("early-exit", "module"),
        ("framework-wrapped", "module"),
        ("equal-to-everything", "module"),
        ("assertion-patched", "module"),
        ("stdout-forgery", "module"),
        ("judge-memory", "module"),
    }
)
"""Cheats of the quick grade: one of each kind."""
_FIRST: Final = 2
"""Trials that decide whether the others are worth their time: the snapshot and the reference, once each."""
_SYSTEM: Final = ("/usr", "/bin", "/lib", "/etc", "/opt", "/sbin")
_TRUST_LIMITS: Final = (
    "The certificate shows that the holder of the key reports these trials of this version; it does not show "
    "that the tests judge rightly, nor that no other way around them exists."
)


NOT_CERTIFIABLE = ErrorCode(
    "not-certifiable",
    ContractError,
    "The contract lacks something without which there is nothing to certify.",
    hint="give the contract a reference change, and lock it as it is now",
)


@dataclass(frozen=True, kw_only=True)
class CertificationSettings:
    """Where and how much is tried."""

    installation: InstallationSettings
    runs: Path
    """Run directories are made here."""
    key: SigningKey
    """Seals the runs."""
    grade: CertificateGrade = "full"
    repeats: int = 3
    """How often the snapshot and the reference are judged."""
    jobs: int = 1
    """Runs at a time."""
    stopper: Stopper = field(default_factory=Stopper)
    on_result: Callable[[str, str, int], None] = lambda purpose, verdict, left: None  # noqa: ARG005
    """Told of every run: what it was for, what came of it, and how many are left."""


def certify_contract(loaded: LoadedContract, settings: CertificationSettings) -> Certificate:
    """Try a contract; whatever comes of it is in the certificate, which is not signed yet.

    Raises:
        NOT_CERTIFIABLE: there is no reference, or no lock that fits.
        CERTIFICATION_BROKEN: the machine did not carry a run through.
        MachineError: it cannot give what the contract needs.
    """
    _verify_certifiable(loaded)
    strength = judge_strength(loaded)
    with open_installation(loaded, settings.installation) as installation:
        scans = tuple(_iter_scans(loaded, installation))
        cheats = _drop_gambles(build_cheats(read_scene(loaded.contract, installation.base.path)), strength)
        machine = _describe_machine(installation)
        level = installation.level
    chosen = [cheat for cheat in cheats if isinstance(cheat, Cheat) and _is_chosen(cheat, settings.grade)]
    judging = end_at_failure(loaded)
    trials = [*_iter_trials(loaded, settings.repeats), *(_plan_cheat(judging, cheat) for cheat in chosen)]
    conduct = _build_conductor(settings, level, len(trials))
    # One run of each tree first: where these fail, no later trial can succeed.
    first = conduct(trials[:_FIRST])
    if (stop := _find_stop(loaded, first, len(trials))) is not None:
        tried = tuple(_describe_cheat(cheat, _Results(loaded, first), is_stopped=True) for cheat in cheats)
        return _build(loaded, settings, (*scans, *stop), tried, first, machine)
    results = [*first, *conduct(trials[_FIRST:])]
    found = _Results(loaded, results)
    tried = tuple(_describe_cheat(cheat, found) for cheat in cheats)
    items = (*scans, *found.judge(), strength, judge_cheats(tried))
    return _build(loaded, settings, items, tried, results, machine)


def _build_conductor(
    settings: CertificationSettings, level: Level, total: int
) -> Callable[[Sequence[CertificationTrial]], list[TrialResult]]:
    """Conducts trials in the machine's own pool, and tells of each how many are left of all."""
    left = iter(range(total - 1, -1, -1))
    shared = RunSettings(
        runs=settings.runs,
        key=settings.key,
        redactor=SecretRedactor(settings.installation.secrets),
        stopper=settings.stopper,
    )

    def conduct(trials: Sequence[CertificationTrial]) -> list[TrialResult]:
        fleet = FleetPlan(runs=tuple(trial.plan(level) for trial in trials))
        events = conduct_fleet(fleet, shared, installation=settings.installation, jobs=settings.jobs)
        return collect_results(
            trials,
            fleet,
            events,
            lambda result: settings.on_result(result.trial.purpose, result.verdict, next(left)),
        )

    return conduct


def _find_stop(
    loaded: LoadedContract, first: Sequence[TrialResult], total: int
) -> tuple[CertificateItem, ...] | None:
    """What one run of the snapshot and one of the reference show, where it ends the certification."""
    found = _Results(loaded, first)
    baseline = judge_baseline(loaded, found.find("untouched"))
    reference = judge_reference(found.find("reference"))
    failing = [item.id for item in (baseline, reference) if item.outcome == "fails"]
    if not failing:
        return None
    finding = (
        f"{', '.join(failing)} failed: fix that first; {total - len(first)} other trials were not conducted"
    )
    return baseline, reference, build_item("completed", "every trial was conducted", [finding])


def _verify_certifiable(loaded: LoadedContract) -> None:
    if loaded.reference is None:
        raise NOT_CERTIFIABLE.error(f"{loaded.directory}: expected a reference change, found none")
    if loaded.lock is None:
        raise NOT_CERTIFIABLE.error(f"{loaded.directory}: expected a locked contract, found no lock")
    problems = check_lock(loaded)
    if problems:
        raise NOT_CERTIFIABLE.error(
            f"{loaded.directory}: expected the contract as locked, found {problems[0].message}"
        )


def _iter_scans(loaded: LoadedContract, installation: Installation) -> Iterator[CertificateItem]:
    """What an agent could find without solving anything."""
    sealed = check_sealed(installation.base)
    yield build_item("history", "the history is one commit", [problem.message for problem in sealed])
    places = [installation.base.path, *(path for path in installation.shown if not _is_system(path))]
    oracle = [finding for place in places for finding in find_leaked_oracle(loaded, place)]
    reference = [finding for place in places for finding in find_leaked_reference(loaded, place)]
    claim = "neither the reference nor the oracle is in what the agent is shown"
    yield build_item("workspace", claim, [*oracle, *reference])
    if (record := installation.setup_network) is not None:
        yield describe_setup(record)


def _is_system(path: Path) -> bool:
    """Programs of the host are the same for every contract."""
    return str(path).startswith(_SYSTEM) or str(path) == "/"


def _drop_gambles(
    cheats: Sequence[Cheat | NotApplicable], strength: CertificateItem
) -> tuple[Cheat | NotApplicable, ...]:
    """Where guessing has a fair chance, one try shows nothing; the note on strength says so."""
    reason = "where twins are few, one guess shows nothing: see twin-strength"
    return tuple(
        NotApplicable(name=cheat.name, variant=cheat.variant, reason=reason)
        if cheat.name == "twin-aware" and strength.outcome == "note"
        else cheat
        for cheat in cheats
    )


def _iter_trials(loaded: LoadedContract, repeats: int) -> Iterator[CertificationTrial]:
    for replicate in range(repeats):
        yield CertificationTrial(purpose="untouched", agent=NoopAgent(), loaded=loaded, replicate=replicate)
        yield CertificationTrial(
            purpose="reference", agent=ReferenceAgent(), loaded=loaded, replicate=replicate
        )
    other = reorder_checks(loaded)
    if other is not None:
        yield CertificationTrial(purpose="reordered", agent=ReferenceAgent(), loaded=other)
    yield CertificationTrial(
        purpose="empty-patch", agent=PatchAgent(name="empty-patch", patch=b""), loaded=loaded
    )
    oversized = PatchAgent(name="oversized-patch", patch=build_oversized_patch(loaded.contract.policy))
    yield CertificationTrial(purpose="oversized-patch", agent=oversized, loaded=loaded)


def _is_chosen(cheat: Cheat, grade: CertificateGrade) -> bool:
    return grade == "full" or (cheat.name, cheat.variant) in _QUICK


def _plan_cheat(loaded: LoadedContract, cheat: Cheat) -> CertificationTrial:
    return CertificationTrial(
        purpose=f"cheat {cheat.name} ({cheat.variant})", agent=cheat.agent, loaded=loaded
    )


class _Results:
    def __init__(self, loaded: LoadedContract, results: Sequence[TrialResult]) -> None:
        self._loaded = loaded
        self._results = results

    def find(self, purpose: str) -> list[TrialResult]:
        return [result for result in self._results if result.trial.purpose == purpose]

    def judge(self) -> Iterator[CertificateItem]:
        loaded = self._loaded
        untouched, reference = self.find("untouched"), self.find("reference")
        yield judge_baseline(loaded, untouched)
        yield judge_reference(reference)
        yield judge_repetition(reference)
        yield judge_stability(loaded.contract.checks, untouched, reference)
        yield judge_order(reference[0], next(iter(self.find("reordered")), None))
        yield judge_patches(untouched[0], self.find("empty-patch")[0], self.find("oversized-patch")[0])
        yield judge_network(reference)
        yield judge_twins(loaded, reference)


def _describe_cheat(
    cheat: Cheat | NotApplicable, results: _Results, *, is_stopped: bool = False
) -> CheatTrial:
    if isinstance(cheat, NotApplicable):
        return CheatTrial(
            name=cheat.name, variant=cheat.variant, outcome="not-applicable", reason=cheat.reason
        )
    found = results.find(f"cheat {cheat.name} ({cheat.variant})")
    if not found:
        reason = "certification was stopped before it" if is_stopped else "not part of the quick grade"
        return CheatTrial(name=cheat.name, variant=cheat.variant, outcome="not-tried", reason=reason)
    result = found[0]
    untried = result.untried
    return CheatTrial(
        name=cheat.name,
        variant=cheat.variant,
        outcome="accepted" if result.is_success else "refused" if untried is None else "not-tried",
        verdict=result.verdict,
        tags=tuple(dict.fromkeys(tag.id for tag in result.card.tags)),
        reason=untried or "",
        run=result.run_id,
    )


def _describe_machine(installation: Installation) -> MachineClass:
    return MachineClass(
        isolation=installation.level.value,
        environment_id=installation.environment_id,
        cpu_class=read_cpu_class(),
        memory_class=read_memory_class(),
    )


def _build(
    loaded: LoadedContract,
    settings: CertificationSettings,
    items: tuple[CertificateItem, ...],
    cheats: tuple[CheatTrial, ...],
    results: Sequence[TrialResult],
    machine: MachineClass,
) -> Certificate:
    lock = loaded.lock
    assert lock is not None
    assert lock.reference_digest is not None
    return Certificate(
        contract_id=lock.id,
        version_id=lock.version_id,
        statement_digest=lock.statement_digest,
        scoring_digest=lock.scoring_digest,
        reference_digest=lock.reference_digest,
        procedure_digest=build_procedure_digest(loaded.contract.ecosystem),
        grade=settings.grade,
        repeats=settings.repeats,
        is_certified=all(item.outcome != "fails" for item in items),
        items=items,
        cheats=cheats,
        runs=tuple(_describe_run(result) for result in results),
        machine=machine,
        harness_version=__version__,
        certified_at_us=SystemClock().now_us(),
        public_key=settings.key.public_key.pem,
        trust_limits=_TRUST_LIMITS,
    )


def _describe_run(result: TrialResult) -> CertifiedRun:
    return CertifiedRun(
        run_id=result.run_id,
        purpose=result.trial.purpose,
        verdict=result.verdict,
        gates=result.card.gate_vector,
        seal_digest=result.seal_digest,
    )
