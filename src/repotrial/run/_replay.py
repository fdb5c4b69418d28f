"""Interface-level replay (P28): the final tree from the trace, acceptance again, no model anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.contract import LoadedContract, parse_record, parse_run_spec
from repotrial.environment import Installation
from repotrial.run._agents import PatchAgent
from repotrial.run._conduct import conduct_run
from repotrial.run._rebuild import check_rebuilt, rebuild_changes
from repotrial.run._replay_commands import CommandReplay, ReplayDivergence, find_commands
from repotrial.run._request import PlannedRun, RunSettings, build_spec
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    BuildCheck,
    CheckOutcome,
    FileChange,
    PatchApplication,
    ProgramStart,
    RunPaths,
    StaticCheck,
    ToolInvocation,
    WorkspaceMutation,
    iter_events,
    iter_with_moot,
    load_manifest,
)
from repotrial.workspace import CopyWorkspace, build_change

REPLAY_MISMATCH = ErrorCode(
    "replay-mismatch",
    EvidenceError,
    "The contract that was given is not the one that the run was bound to.",
    hint="name the contract directory whose lock has the run's version id",
)


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found."""

    run_id: str
    holds: bool
    """Whether everything came out as recorded."""
    directory: str
    """The record of the replay itself."""
    tree_rebuilt: bool
    """Whether the trace alone gives the very change that was judged."""
    commands_replayed: int
    """Test, build and lint commands of the agent that were run again at their points."""
    commands_left_out: int
    """More of them, beyond the bound."""
    divergences: tuple[ReplayDivergence, ...]
    """What came out otherwise."""


def replay_run(
    paths: RunPaths, loaded: LoadedContract, *, installation: Installation, settings: RunSettings
) -> Replay:
    """Rebuild what a run changed, judge it again, and compare outcome by outcome.

    Args:
        paths: The run.
        loaded: Its contract.
        installation: Of the contract.
        settings: The replay's own record goes where they say.

    Raises:
        REPLAY_MISMATCH: the contract is another one.
        EvidenceError: the record cannot be read.
    """
    _verify_contract(paths, loaded)
    with installation.open_plain_workspace() as workspace:
        rebuilt = _Rebuilder(paths, installation, workspace).rebuild()
    recorded = paths.change.read_bytes()
    divergences = list(rebuilt.divergences)
    if rebuilt.patch != recorded:
        found = digest_bytes(rebuilt.patch)
        divergences.append(
            ReplayDivergence(what="the change", recorded=digest_bytes(recorded), replayed=found)
        )
    divergences += _compare_setup(paths, installation)
    directory = _judge_again(paths, installation, settings, recorded)
    divergences += compare_outcomes(paths, RunPaths(directory))
    is_same = rebuilt.patch == recorded
    return Replay(
        run_id=paths.root.name,
        holds=is_same and not divergences,
        directory=str(directory),
        tree_rebuilt=is_same,
        commands_replayed=rebuilt.commands,
        commands_left_out=rebuilt.left_out,
        divergences=tuple(divergences),
    )


def _verify_contract(paths: RunPaths, loaded: LoadedContract) -> None:
    bound = parse_record(paths.contract.read_bytes()).lock.version_id
    lock = loaded.lock
    if lock is None or lock.version_id != bound:
        found = "no lock" if lock is None else lock.version_id
        raise REPLAY_MISMATCH.error(f"{loaded.directory}: expected the version {bound}, found {found}")


def _compare_setup(paths: RunPaths, installation: Installation) -> Iterator[ReplayDivergence]:
    """C12: a Setup with network may make another product than it did for the run."""
    recorded = load_manifest(paths.manifest).dependencies.setup
    found = installation.setup_network
    if recorded is not None and found is not None and recorded.product_digest != found.product_digest:
        yield ReplayDivergence(
            what="the product of Setup", recorded=recorded.product_digest, replayed=found.product_digest
        )


def _judge_again(paths: RunPaths, installation: Installation, settings: RunSettings, change: bytes) -> Path:
    recorded, loaded = parse_run_spec(paths.spec.read_bytes()), installation.loaded
    agent = PatchAgent(name="replay", patch=change)
    spec = build_spec(
        loaded,
        agent,
        level=installation.level,
        root_seed=recorded.root_seed,
        replicate=recorded.replicate,
    )
    plan = PlannedRun(loaded=loaded, agent=agent, spec=spec)
    return conduct_run(plan, settings, lambda: installation).paths.root


@dataclass(frozen=True, kw_only=True)
class _Rebuilt:
    patch: bytes
    commands: int
    left_out: int
    divergences: tuple[ReplayDivergence, ...]


class _Rebuilder:
    """Walks a trace once: mutations are done again, the agent's own commands run where they ran."""

    def __init__(self, paths: RunPaths, installation: Installation, workspace: CopyWorkspace) -> None:
        self._paths = paths
        self._installation = installation
        self._workspace = workspace
        self._blobs = BlobStore(paths.blobs)
        self._commands = CommandReplay(installation, find_commands(iter_events(paths.trace)))

    def rebuild(self) -> _Rebuilt:
        divergences: list[ReplayDivergence] = []
        handed_in: bytes | None = None
        changes: list[FileChange] = []
        has_changed = False
        for event in iter_events(self._paths.trace):
            if has_changed and not isinstance(event.payload, WorkspaceMutation):
                divergences += self._commands.settle(self._build_patch)
                has_changed = False
            match event.payload:
                case WorkspaceMutation() as mutation:
                    rebuild_changes(self._installation, self._workspace, mutation.changes, self._blobs)
                    changes += mutation.changes
                    has_changed = True
                case ToolInvocation(tool="hand-in", arguments=arguments):
                    handed_in = arguments.load(self._blobs)
                case ProgramStart() | ToolInvocation():
                    self._commands.take(event.seq, self._build_patch)
                case _:
                    pass
        divergences += self._commands.conclude()
        wrong = check_rebuilt(self._workspace, changes)
        divergences += [
            ReplayDivergence(what=path, recorded="rebuildable", replayed="other content") for path in wrong
        ]
        return _Rebuilt(
            patch=self._build_patch() if handed_in is None else handed_in,
            commands=self._commands.count,
            left_out=self._commands.left_out,
            divergences=tuple(divergences),
        )

    def _build_patch(self) -> bytes:
        generated = self._installation.loaded.contract.policy.generated
        return build_change(self._workspace, generated=generated).patch


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    outcome: str
    failing: str


def compare_outcomes(recorded: RunPaths, replayed: RunPaths) -> tuple[ReplayDivergence, ...]:
    """Every execution of the two that says something, by check, tree, variant and attempt."""
    one, other = dict(_iter_findings(recorded)), dict(_iter_findings(replayed))
    return tuple(
        ReplayDivergence(what=key, recorded=_describe(one.get(key)), replayed=_describe(other.get(key)))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    )


def _iter_findings(paths: RunPaths) -> Iterator[tuple[str, _Finding]]:
    for event, is_moot in iter_with_moot(iter_events(paths.trace)):
        match event.payload:
            case PatchApplication(outcome=outcome):
                yield "patch", _Finding(outcome=_name(outcome), failing="")
            case BuildCheck() | StaticCheck() as check:
                key = f"{check.check_id} #{check.attempt} on the {check.subject}"
                yield key, _Finding(outcome=_name(check.outcome), failing="")
            case AcceptanceExecution() as check if not is_moot:
                key = f"{check.check_id} ({check.variant}) #{check.attempt} on the {check.subject}"
                # Twins get new names each time, so their ids cannot be compared.
                failing = check.failing.digest if check.variant == "plain" else ""
                yield key, _Finding(outcome=_name(check.outcome), failing=failing)
            case _:
                pass


def _name(outcome: CheckOutcome) -> str:
    return str(outcome.__struct_config__.tag)


def _describe(finding: _Finding | None) -> str:
    if finding is None:
        return "not executed"
    return (
        finding.outcome if not finding.failing else f"{finding.outcome}, failing tests {finding.failing[:19]}"
    )
