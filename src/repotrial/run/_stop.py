"""Stopping a run from outside: everything that it started ends at once, and its record says so (P12)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError, UsageError
from repotrial.isolation import Sandbox

AGENT_NOT_STARTED = ErrorCode(
    "agent-not-started",
    UsageError,
    "There never was a process of the agent: nothing was measured.",
    hint="name a program that the contract's environment or the repository has; `repotrial sandbox exec "
    "DIR -- NAME` tries it",
)
AGENT_SANDBOX_LOST = ErrorCode(
    "agent-sandbox-lost",
    MachineError,
    "The sandbox was gone before the agent was done: what it would have done is unknown.",
    hint="look at the machine's memory and its log; `repotrial doctor` shows what it can do",
)
MODEL_UNREACHABLE = ErrorCode(
    "model-unreachable",
    MachineError,
    "No request of the agent was answered by a model: nothing was measured but the provider's trouble.",
    hint="look at the key, the provider's address and its limits; then repeat the command, and the run is "
    "conducted again",
)
BUDGET_REACHED = ErrorCode(
    "budget-reached",
    UsageError,
    "A budget was used up before the agent began: provisioning and Setup are paid from it as well.",
    hint="raise the cap (a policy choice) or the envelope that is named; what Setup completed is kept",
)
RUN_STOPPED = ErrorCode(
    "run-stopped",
    UsageError,
    "The operator stopped the run.",
    hint="start it again: what was completed is kept, what was stopped gets a new attempt",
)


class Stopper:
    """One switch for any number of runs; safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Sandbox] = []
        self._asked: list[Callable[[], None]] = []
        self._is_stopped = False

    def stop(self) -> None:
        """End what is running, and whatever is watched from now on. Idempotent."""
        with self._lock:
            self._is_stopped = True
            running, asked = tuple(self._open), tuple(self._asked)
        # All at once: one that takes its time must not let the others work on meanwhile.
        ends = [*asked, *(sandbox.close for sandbox in running)]
        threads = [threading.Thread(target=_end, args=(end,), name="stop") for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call it on a stop; at once if there was one."""
        with self._lock:
            self._asked.append(listener)
            is_stopped = self._is_stopped
        if is_stopped:
            listener()

    @property
    def is_stopped(self) -> bool:
        """Whether the operator has stopped the runs."""
        with self._lock:
            return self._is_stopped

    def verify_going(self) -> None:
        """Go on, unless there was a stop.

        Raises:
            RUN_STOPPED: there was one.
        """
        if self._is_stopped:
            raise RUN_STOPPED.error("stopped by the operator")

    @contextlib.contextmanager
    def watch(self, sandbox: Sandbox) -> Iterator[None]:
        """While this lasts, stopping closes the sandbox.

        Raises:
            RUN_STOPPED: it was stopped meanwhile: what the sandbox reported means nothing.
        """
        with self._lock:
            self._open.append(sandbox)
        try:
            self.verify_going()
            yield
        except RepoTrialError:
            self.verify_going()  # a sandbox that a stop closed is no fault
            raise
        finally:
            with self._lock:
                self._open.remove(sandbox)
        self.verify_going()


def _end(end: Callable[[], None]) -> None:
    # The owner of the sandbox closes it, too, and gets the error there.
    with contextlib.suppress(RepoTrialError, OSError):
        end()
