"""Oracle: the ordered suite of checks (C5, C6)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.words import Gate
from repotrial.contract._environment import Network
from repotrial.contract._types import (
    EnvName,
    Identifier,
    InventoryPath,
    NonNegative,
    OverlayPath,
    Positive,
    Seconds,
    Shell,
    StrictDocument,
    WorkspacePath,
)

ResultFormat: TypeAlias = Literal[
    "junit", "tap", "go-test-json", "libtest", "node-test", "automake-trs", "ctrf", "exit-code"
]


ResultsPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?!/)(?!.*(^|/)\.\.(/|$))[^\\\x00-\x1f]+$(?!\n)",
        max_length=1000,
        extra={"expected": "a path or glob relative to the results directory", "tree": "results"},
    ),
]


class ResultFile(StrictDocument, frozen=True, kw_only=True):
    """Structured results that a runner leaves behind."""

    format: ResultFormat
    """How to read it."""
    path: ResultsPath | None = None
    """File or glob below `$REPOTRIAL_RESULTS`; standard output where it is left out."""
    prefix: str = ""
    """Put before every id, where several runners would otherwise use the same ones."""


class Runner(StrictDocument, frozen=True, kw_only=True):
    """One command of a check, with the results it leaves."""

    run: Shell
    """The command line."""
    cwd: WorkspacePath = "."
    """Where it runs."""
    results: tuple[ResultFile, ...] = ()
    """Empty: the exit code alone speaks."""
    variables: dict[EnvName, str] = {}
    """Environment of this command alone."""


class Overlay(StrictDocument, frozen=True, kw_only=True):
    """Oracle files laid over the candidate's tree, last."""

    source: OverlayPath = msgspec.field(name="from")
    """File or directory beside the contract; the agent never sees it."""
    target: WorkspacePath = msgspec.field(name="to")
    """Where it goes."""
    delete: tuple[WorkspacePath, ...] = ()
    """What is removed from the candidate's tree before."""


class Inventory(StrictDocument, frozen=True, kw_only=True):
    """The test ids that must speak, each with an explicit pass."""

    fail_to_pass: tuple[str, ...]
    """Fail on the untouched snapshot, pass after the change."""
    pass_to_pass: tuple[str, ...] = ()
    """Pass before and after."""


class Check(StrictDocument, frozen=True, kw_only=True):
    """One predicate over the workspace and the change."""

    id: Identifier
    """Its name; evidence, tags and `needs` use it."""
    gate: Gate
    """The gate that it serves."""
    layer: Identifier | None = None
    """Acceptance layer (unit, integration, …); failure tags name it."""
    is_mandatory: bool = msgspec.field(name="mandatory", default=True)
    """Whether success needs it."""
    run: Shell | None = None
    """The command, where there is one; several go into `runners`."""
    results: tuple[ResultFile, ...] = ()
    """Structured results of `run`; empty: the exit code alone speaks."""
    runners: tuple[Runner, ...] = ()
    """Further commands, each with its own results."""
    cwd: WorkspacePath = "."
    """Where `run` runs."""
    needs: tuple[Identifier, ...] = ()
    """Checks that must have completed before; their `outputs` are visible."""
    outputs: tuple[WorkspacePath, ...] = ()
    """What later checks may use: a build directory, for example."""
    files: tuple[Overlay, ...] = ()
    """Oracle files, laid over the candidate's tree last."""
    negative: tuple[Overlay, ...] = ()
    """Wrong-expectation copies of the tests, which must fail: the author's twins for in-process judges."""
    judge: Literal["in-process", "out-of-process"] = "in-process"
    """Whether candidate code runs inside the judging process."""
    inventory: InventoryPath | None = None
    """JSON file with `fail_to_pass` and `pass_to_pass`: ids as the results give them, such as JUnit's
    `classname::name` or TAP's description, with the result file's `prefix`."""
    expected_skips: tuple[str, ...] = ()
    """Ids that may be skipped; every other skip is not a pass."""
    baseline: Literal["pass", "fail"] | None = None
    """Outcome on the untouched snapshot, held against reality in certification."""
    repeats: Positive = 1
    """How often it runs."""
    rule: Literal["any-failure-dominates", "passes-required"] = "any-failure-dominates"
    """How repeated outcomes become one (S4, B11)."""
    passes_required: Positive | None = None
    """With `passes-required`: how many of the repeats must pass."""
    tolerance: NonNegative = 0
    """Differing outcomes that certification accepts over its repeats."""
    services: tuple[Identifier, ...] = ()
    """Services of the environment that must be ready."""
    network: Network = "none"
    """What the commands of this check may reach, through the proxy and on record (Q7)."""
    variables: dict[EnvName, str] = {}
    """Environment of this check alone."""
    timeout_seconds: Seconds | None = None
    """No default: a check without a ceiling is reported by lint."""

    @property
    def all_runners(self) -> tuple[Runner, ...]:
        """The commands in order, however they were written."""
        if self.run is None:
            return self.runners
        return (Runner(run=self.run, cwd=self.cwd, results=self.results), *self.runners)
