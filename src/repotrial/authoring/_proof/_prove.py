"""Red and green: hidden tests on the snapshot and on the change, until it is known what each of them does."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.display import list_some, neutralize
from repotrial.authoring._proof._locks import PackageLocker
from repotrial.contract import Check, Inventory, LoadedContract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import Rehearsal, rehearse_check

LeftOutReason: TypeAlias = Literal[
    "unstable-id", "unstable-outcome", "fails-with-reference", "needs-network", "skipped", "other-file-broken"
]
ProofFailure: TypeAlias = Literal[
    "does-not-run", "no-test-turns", "needs-network", "too-many-fail", "nothing-stable", "too-slow"
]

_MOST_DESELECTED: Final = 40
_MOST_ROUNDS: Final = 3
_SHOWN: Final = 300
_COLUMNS: Final = "400"
"""Runners cut their lines to the terminal's width, and with them the reason of a failure."""
_NETWORK: Final = re.compile(
    r"name resolution|[Nn]ame or service not known|No route to host|Network is unreachable|urlopen error"
    r"|NameResolutionError|gaierror|Failed to establish a new conn|getaddrinfo|EAI_AGAIN|\bENOTFOUND\b"
    r"|Could not resolve host|ConnectError|no such host"
)
_MISSING: Final = re.compile(r"No module named '([\w.]+)'")
_SUMMARY: Final = re.compile(r"^(?:FAILED|ERROR) (?P<node>\S+(?:\[.*?\])?)(?: - (?P<why>.*))?$", re.MULTILINE)


class LeftOutTests(msgspec.Struct, frozen=True, kw_only=True):
    """Tests that the inventory does not name, by reason."""

    reason: LeftOutReason
    tests: tuple[str, ...]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What the tests did."""

    inventory: Inventory
    left_out: tuple[LeftOutTests, ...]
    deselected: tuple[str, ...]
    """Options of the command that keep tests from running: a test that fails fails the check."""
    repeats: int
    """How often each tree was judged."""
    executions: int
    wall_us: int
    """Of the longest execution."""

    @property
    def is_proved(self) -> bool:
        """Whether tests turn with the change."""
        return True

    def describe(self) -> str:
        """In a line."""
        turning, staying = len(self.inventory.fail_to_pass), len(self.inventory.pass_to_pass)
        verb = "test turns" if turning == 1 else "tests turn"
        runs = f"{self.repeats} runs of each"
        return f"{turning} {verb} with the change, {staying} pass before and after, in {runs}"


class Unproved(msgspec.Struct, frozen=True, kw_only=True):
    """Why the tests prove nothing."""

    failure: ProofFailure
    message: str
    executions: int

    @property
    def is_proved(self) -> bool:
        """Whether tests turn with the change."""
        return False

    def describe(self) -> str:
        """In a line."""
        return f"{self.failure}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class ProofSettings:
    """Where and how often tests are run."""

    installation: InstallationSettings
    locker: PackageLocker
    repeats: int = 3
    timeout_seconds: int = 300
    """For one execution of the check."""
    budget_seconds: float | None = None
    """For all executions together; None for as long as it takes."""
    on_step: Callable[[str], None] = lambda step: None  # noqa: ARG005
    """Told what is done next."""


def prove_contract(
    loaded: LoadedContract, settings: ProofSettings, *, test_files: Sequence[str]
) -> Proof | Unproved:
    """Run the first check of a locked draft on the snapshot and on the reference.

    Raises:
        RepoTrialError: this machine cannot make the contract's environment.
    """
    with open_installation(loaded, settings.installation) as installation:
        return _Prover(installation, settings, test_files).prove()


class _Prover:
    def __init__(
        self, installation: Installation, settings: ProofSettings, test_files: Sequence[str]
    ) -> None:
        self._installation = installation
        self._settings = settings
        self._test_files = test_files
        self._check = installation.loaded.contract.checks[0]
        self._deselected: list[str] = []
        self._broken: dict[str, LeftOutReason] = {}
        self._done = 0
        self._longest_us = 0
        self._started = time.monotonic()

    def prove(self) -> Proof | Unproved:
        green = self._find_green()
        if isinstance(green, Unproved):
            return green
        red = self._run("the tests of the change on its parent (1)")
        if isinstance(red, Unproved):
            return red
        if not {*green.tests.passed} - {*red.tests.passed}:
            return self._fail(
                "no-test-turns",
                f"all {len(green.tests.passed)} tests that pass with the change pass without it, too",
            )
        greens, reds = [green], [red]
        for number in range(2, self._settings.repeats + 1):
            for trees, patch, what in (
                (greens, self._reference, "with the change"),
                (reds, b"", "on its parent"),
            ):
                again = self._run(f"the tests {what} ({number})", patch)
                if isinstance(again, Unproved):
                    return again
                trees.append(again)
        return self._conclude(greens, reds)

    @property
    def _reference(self) -> bytes:
        return self._installation.loaded.reference or b""

    def _find_green(self) -> Rehearsal | Unproved:
        """The change with tests that pass; what fails with the reference is taken out of the command."""
        for _ in range(_MOST_ROUNDS):
            green = self._run("the tests with the change (1)", self._reference)
            if isinstance(green, Unproved):
                return green
            if green.tests.error is not None or not (green.tests.passed or green.tests.failed):
                return self._fail(*_explain(green))
            if not green.tests.failed:
                return green if green.exit_code == 0 else self._fail(*_explain(green))
            if not green.tests.passed:
                return self._fail(*_explain(green, self._test_files))
            failed = self._deselect(green)
            if failed is not None:
                return failed
        return self._fail("too-many-fail", f"other tests fail with the change in each of {_MOST_ROUNDS} runs")

    def _deselect(self, green: Rehearsal) -> Unproved | None:
        why = {match["node"]: match["why"] or "" for match in _SUMMARY.finditer(green.output)}
        for test in green.tests.failed:
            node = find_node(test, self._test_files)
            if node is None:
                return self._fail(*_explain(green))
            is_file = "::" not in node
            self._deselected.append(
                f"--ignore={shlex.quote(node)}" if is_file else f"--deselect={shlex.quote(node)}"
            )
            is_network = _NETWORK.search(why.get(node, "")) is not None
            self._broken[test] = "needs-network" if is_network else "fails-with-reference"
        if len(self._deselected) > _MOST_DESELECTED:
            count = len(self._deselected)
            return self._fail("too-many-fail", f"{count} tests fail with the change itself: {_tail(green)}")
        return None

    def _run(self, step: str, patch: bytes = b"") -> Rehearsal | Unproved:
        self._settings.on_step(step)
        budget = self._settings.budget_seconds
        if budget is not None and time.monotonic() - self._started > budget:
            return self._fail("too-slow", f"the executions together take more than {budget:.0f} s")
        wide = {**self._check.variables, "COLUMNS": _COLUMNS}
        check = msgspec.structs.replace(add_options(self._check, self._deselected), variables=wide)
        limit = self._settings.timeout_seconds
        done = rehearse_check(self._installation, check, patch=patch, timeout_seconds=limit)
        self._done += 1
        self._longest_us = max(self._longest_us, done.wall_us)
        if done.wall_us >= limit * 1_000_000:
            return self._fail("too-slow", f"one execution of the tests takes more than {limit} s")
        return done

    def _fail(self, failure: ProofFailure, message: str) -> Unproved:
        return Unproved(failure=failure, message=message, executions=self._done)

    def _conclude(self, greens: Sequence[Rehearsal], reds: Sequence[Rehearsal]) -> Proof | Unproved:
        seen = [{*run.tests.passed, *run.tests.failed, *run.tests.skipped} for run in greens]
        always = set.intersection(*seen)
        passed = set.intersection(*({*run.tests.passed} for run in greens))
        passed_before = [{*run.tests.passed} for run in reds]
        before = set.intersection(*passed_before)
        ever_before = set.union(*passed_before)
        turning = passed - ever_before
        staying = passed & before
        skipped = set.intersection(*({*run.tests.skipped} for run in greens))
        left_out = [
            *self._broken.items(),
            *((test, "unstable-id") for test in set.union(*seen) - always),
            *((test, "skipped") for test in skipped),
            *((test, "unstable-outcome") for test in always - turning - staying - skipped),
        ]
        if not turning:
            return self._fail(
                "nothing-stable", "no test fails before the change and passes after it every time"
            )
        return Proof(
            inventory=Inventory(fail_to_pass=tuple(sorted(turning)), pass_to_pass=tuple(sorted(staying))),
            left_out=_group(left_out),
            deselected=tuple(self._deselected),
            repeats=len(greens),
            executions=self._done,
            wall_us=self._longest_us,
        )


def add_options(check: Check, options: Iterable[str]) -> Check:
    """The same check with more options for its runner."""
    more = " ".join(options)
    return msgspec.structs.replace(check, run=f"{check.run} {more}") if more else check


def find_node(test: str, test_files: Sequence[str]) -> str | None:
    """How pytest names a test on its command line, from its id in a JUnit file; None if no file has it."""
    classname, _, name = test.rpartition("::")
    for path in test_files:
        module = re.sub(r"\.py$", "", path).replace("/", ".")
        if not classname and name == module:
            return path  # the file could not be collected
        if classname == module or classname.startswith(f"{module}."):
            inside = [part for part in classname[len(module) + 1 :].split(".") if part]
            return "::".join((path, *inside, name))
    return None


def _group(left_out: Iterable[tuple[str, LeftOutReason]]) -> tuple[LeftOutTests, ...]:
    pairs = list(left_out)
    reasons = Counter(reason for _, reason in pairs)
    return tuple(
        LeftOutTests(reason=reason, tests=tuple(sorted(test for test, why in pairs if why == reason)))
        for reason in reasons
    )


def _explain(run: Rehearsal, test_files: Sequence[str] = ()) -> tuple[ProofFailure, str]:
    """What keeps the tests from running on the change itself."""
    if missing := _MISSING.search(run.output):
        return "does-not-run", f"the tests import {missing[1]!r}, which no package of the lock has"
    if _NETWORK.search(run.output):
        return "needs-network", f"the tests want the network: {_tail(run)}"
    if "fixture '" in run.output and "not found" in run.output:
        return "does-not-run", f"a fixture's plugin is missing: {_tail(run)}"
    nodes = [find_node(test, test_files) for test in run.tests.failed]
    if nodes and all(node is not None and "::" not in node for node in nodes):
        return (
            "does-not-run",
            f"{list_some([str(node) for node in nodes], most=3)} cannot be imported: {_tail(run)}",
        )
    if run.tests.failed:
        return "too-many-fail", f"{len(run.tests.failed)} tests fail with the change itself: {_tail(run)}"
    return "does-not-run", f"the command ends with {run.exit_code} and reports no test: {_tail(run)}"


def _tail(run: Rehearsal) -> str:
    """The line that says most: an error with its message before a summary that names tests."""
    lines = [line.strip().removeprefix("E ").strip() for line in run.output.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception)\b: ", line)]
    telling = [line for line in lines if re.search(r"Error\b|error:|FAILED|ERROR", line)]
    return neutralize((raised or telling or lines or ["it printed nothing"])[-1], max_characters=_SHOWN)
