"""What one execution of a check works with: a tree, a place for results, and a sandbox around both."""

from __future__ import annotations

import re
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from repotrial.contract import Check, Environment
from repotrial.environment import Installation, SandboxRequest, build_resource_limits
from repotrial.isolation import Bind, CommandResult, Sandbox
from repotrial.run._accept._candidate import PATCH_NAME, RESULTS_PLACE, apply_patch, is_applied
from repotrial.run._context import BoundRun
from repotrial.run._program_events import SyscallMonitor

JUDGE_VARIABLES: Final = {
    # No packages of a home directory, no compiled leftovers beside sources, no plugins that a tree brings.
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
"""Set for every check unless the contract sets them."""


_STEERING: Final = re.compile("GIT_|LD_")
"""Variables by which git, or any program, does something else."""


class Prepared:
    """A fresh tree and a place for results; both are gone when this is left."""

    def __init__(self, installation: Installation) -> None:
        self._sandbox: Sandbox | None = None
        self._check_id: str | None = None
        self._around_sandbox = ExitStack()
        with ExitStack() as stack:
            self.workspace = stack.enter_context(installation.open_workspace())
            self.results = stack.enter_context(installation.open_scratch())
            self._stack = stack.pop_all()

    def open_sandbox(self, run: BoundRun, check: Check, files: tuple[Bind, ...]) -> Sandbox:
        """The sandbox of a check on this tree; the one that is open, where there is one.

        Args:
            run: It ends where the run is stopped.
            check: The check.
            files: Oracle files.
        """
        if self._sandbox is not None:
            assert not files, "only a check without oracle files can have its sandbox early"
            return self._sandbox
        writer, contract = run.writer, run.plan.loaded.contract
        monitor = SyscallMonitor(writer, phase="accept", since=writer.last_seq, has_programs=False)
        judge = {
            name: value
            for name, value in JUDGE_VARIABLES.items()
            if name not in contract.environment.variables
        }
        sandbox = run.installation.open_sandbox(
            self.workspace,
            SandboxRequest(
                phase="accept",
                binds=(*files, Bind(source=self.results.path, target=RESULTS_PLACE, is_writable=True)),
                variables={**judge, **check.variables, "REPOTRIAL_RESULTS": RESULTS_PLACE},
                limits=build_resource_limits(contract.limits, phase="accept"),
            ),
            sink=monitor,
        )
        self._around_sandbox.callback(monitor.close)
        self._around_sandbox.enter_context(sandbox)
        self._around_sandbox.enter_context(run.settings.stopper.watch(sandbox))
        self._sandbox, self._check_id = sandbox, check.id
        return sandbox

    def fits(self, check: Check, *, has_files: bool) -> bool:
        """Whether a check can be executed here: one that has its sandbox early is for its own check alone."""
        return self._sandbox is None or (check.id == self._check_id and not has_files)

    def close_sandbox(self) -> None:
        """End everything that runs on this tree.

        Raises:
            RUN_STOPPED: the run was stopped meanwhile: what the sandbox reported means nothing.
        """
        self._around_sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._around_sandbox.__exit__(kind, error, trace)


def apply_early(run: BoundRun, check: Check, patch: bytes) -> tuple[Prepared, CommandResult] | None:
    """The change, applied in the first check's own sandbox before anything of it runs.

    A sandbox costs more than git does. But that tree must be the same as if git had worked alone: so nothing
    else may come into it, and if git refuses, the caller tries again in a sandbox of its own.

    Returns:
        None where it is not possible, or git objects.
    """
    if not patch or not leaves_git_alone(run.plan.loaded.contract.environment, check):
        return None
    with ExitStack() as stack:
        prepared = stack.enter_context(Prepared(run.installation))
        sandbox = prepared.open_sandbox(run, check, ())
        file = prepared.results.write(PATCH_NAME, patch)
        result = apply_patch(sandbox)
        file.unlink()
        if is_applied(result):
            stack.pop_all()
            return prepared, result
    return None


def leaves_git_alone(environment: Environment, check: Check) -> bool:
    """Whether git is the host's own, nothing steers it, and nothing but the base is in its tree."""
    has_others = bool(environment.services or environment.mounts or check.files or check.needs)
    names = (*environment.variables, *check.variables, *(secret.name for secret in environment.secrets))
    return environment.image == "host" and not has_others and not any(map(_STEERING.match, names))
