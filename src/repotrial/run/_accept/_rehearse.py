"""A check executed outside of a run: for authors who ask what tests report, not for verdicts.

The tree, the oracle files, the variables and the sandbox are those of acceptance: what is seen here is what
a run will see. Nothing is recorded, and no policy is applied: the change is the author's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

import msgspec

from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import Check, Runner
from repotrial.environment import Installation, SandboxRequest, build_resource_limits
from repotrial.isolation import WORKSPACE, Bind, CommandSpec, Sandbox
from repotrial.judging import ReportedTests, RunnerRecord
from repotrial.run._accept._candidate import RESULTS_PLACE, apply_patch_inside, is_applied
from repotrial.run._accept._execute import RESULT_BYTES
from repotrial.run._accept._oracle import list_oracle_files, place_files
from repotrial.run._accept._prepared import JUDGE_VARIABLES, Prepared, read_leftovers, remove_inside
from repotrial.trace import Exited

_OUTPUT_CHARACTERS: Final = 20_000
_OUTPUT_BYTES: Final = 64 * 2**20


REFERENCE_NOT_APPLIED = ErrorCode(
    "reference-not-applied",
    ContractError,
    "The reference change does not apply to the snapshot of its own contract.",
    hint="make the reference with `git diff --binary` between the snapshot's commit and the change",
)


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution of a check reported."""

    tests: ReportedTests
    exit_code: int | None
    """Of the last command; None if it did not end by itself."""
    output: str
    """The end of what the last command printed."""
    wall_us: int


def rehearse_check(
    installation: Installation, check: Check, *, patch: bytes = b"", timeout_seconds: int
) -> Rehearsal:
    """Execute a check once on the snapshot with a change, as acceptance would.

    Args:
        installation: The contract's environment.
        check: One of its checks; its commands may be others than the contract's.
        patch: The change; nothing for the untouched snapshot.
        timeout_seconds: For each of its commands.

    Raises:
        REFERENCE_NOT_APPLIED: git refuses the change.
    """
    loaded = installation.loaded
    with ExitStack() as stack:
        prepared = stack.enter_context(Prepared(installation))
        if not is_applied(apply_patch_inside(installation, prepared.workspace, patch)):
            raise REFERENCE_NOT_APPLIED.error("expected the change to apply to the snapshot, found otherwise")
        removed = [path for overlay in check.files for path in overlay.delete]
        remove_inside(installation, prepared.workspace, removed)
        files: tuple[Bind, ...] = ()
        if oracle := list_oracle_files(loaded, check.files):
            files = place_files(oracle, stack.enter_context(installation.open_scratch()))
        request = SandboxRequest(
            phase="accept",
            binds=(*files, Bind(source=prepared.results.path, target=RESULTS_PLACE, is_writable=True)),
            variables=_build_variables(loaded.contract.environment.variables, check),
            limits=build_resource_limits(loaded.contract.limits, phase="accept"),
        )
        with installation.open_sandbox(prepared.workspace, request) as sandbox:
            ended = [_run(sandbox, runner, timeout_seconds) for runner in check.all_runners]
        left = read_leftovers(prepared.results.path)
    records = [msgspec.structs.replace(record, files=left) for record in ended]
    last = records[-1]
    printed = (last.stdout + b"\n" + last.stderr)[-_OUTPUT_CHARACTERS:].decode(errors="replace")
    return Rehearsal(
        tests=ReportedTests.read(records),
        exit_code=last.exit.code if isinstance(last.exit, Exited) else None,
        output=escape_unprintable(printed, keep="\n"),
        wall_us=sum(record.wall_us for record in records),
    )


def _build_variables(stated: Mapping[str, str], check: Check) -> dict[str, str]:
    judge = {name: value for name, value in JUDGE_VARIABLES.items() if name not in stated}
    return {**judge, **check.variables, "REPOTRIAL_RESULTS": RESULTS_PLACE}


def _run(sandbox: Sandbox, runner: Runner, timeout_seconds: int) -> RunnerRecord:
    result = sandbox.run(
        CommandSpec(
            argv=("/bin/sh", "-c", runner.run),
            cwd=WORKSPACE if runner.cwd == "." else f"{WORKSPACE}/{runner.cwd}",
            variables=runner.variables,
            timeout_seconds=timeout_seconds,
            prefix_bytes=RESULT_BYTES,
            output_bytes=_OUTPUT_BYTES,
        )
    )
    return RunnerRecord(
        runner=runner,
        exit=result.exit,
        cause=result.cause,
        wall_us=result.usage.wall_us,
        stdout=result.stdout.prefix,
        stdout_bytes=result.stdout.length_bytes,
        stderr=result.stderr.prefix,
        files={},
    )
