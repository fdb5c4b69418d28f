"""What programs printed, as far as the record kept it: the agent's own, the patch program, every check."""

from __future__ import annotations

from typing import Literal, Self

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.words import JudgedTree
from repotrial.trace._event import Event
from repotrial.trace._payloads.actions import ToolInvocation
from repotrial.trace._payloads.checks import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    Passed,
    PatchApplication,
    StaticCheck,
)
from repotrial.trace._payloads.common import Command, ExitStatus, Output
from repotrial.trace._timeline import describe_doubt, describe_exit, describe_outcome


class PrintingProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One execution whose streams are on record."""

    seq: Count
    """Its event."""
    name: str
    """The check's id; `agent` for the agent's program, `patch` for what applied the change."""
    kind: Literal["agent", "patch", "check"]
    """Which of them: a check may be called `agent`, too."""
    subject: JudgedTree | None = None
    """Of a check: whose tree was judged."""
    variant: Literal["plain", "twins"] | None = None
    """Of a check: whether wrong-expectation twins were mixed in."""
    attempt: int | None = None
    """Of a check: which repetition, from 1."""
    command: Command | None
    """What ran; of a check with several commands, the last that did."""
    exit: ExitStatus
    """How it ended."""
    is_moot: bool = False
    """Of a twin run: whether the plain run does not pass, so that this one says nothing."""
    outcome: CheckOutcome | None = None
    """What it says about the change; None for the agent."""
    stdout: Output | None
    """What it printed; None if it has no such stream."""
    stderr: Output | None
    """What it printed as errors; None if it has no such stream."""

    @property
    def label(self) -> str:
        """Which execution it is, in words."""
        if self.kind != "check":
            return "the agent's program" if self.kind == "agent" else "applying the change"
        what = "twin run, wrong expectations mixed in" if self.variant == "twins" else "plain run"
        if self.subject != "candidate":
            what = f"control: {what} on the {self.subject}"
        return f"{what}, attempt {self.attempt}"

    @property
    def ended(self) -> str:
        """How it ended, in words; they may quote untrusted text."""
        return describe_exit(self.exit)

    @property
    def ending(self) -> str:
        """How it ended and what it says, in words; they may quote untrusted text."""
        if self.outcome is None:
            return self.ended
        if self.variant == "twins":
            return f"{self.ended}, {describe_doubt(self.outcome, is_moot=self.is_moot)}"
        return f"{self.ended}, {describe_outcome(self.outcome)}"

    @property
    def is_passed(self) -> bool:
        """Whether it is a check that passed."""
        return isinstance(self.outcome, Passed)

    @classmethod
    def find(cls, event: Event, *, is_moot: bool = False) -> Self | None:
        """The program of an event; None if the event is not one of a program that prints."""
        match event.payload:
            case ToolInvocation(source="sandbox") as tool if (
                tool.stdout is not None or tool.stderr is not None
            ):
                return cls(
                    seq=event.seq,
                    name="agent",
                    kind="agent",
                    command=tool.command,
                    exit=tool.exit,
                    stdout=tool.stdout,
                    stderr=tool.stderr,
                )
            case PatchApplication() as patch:
                return cls(
                    seq=event.seq,
                    name="patch",
                    kind="patch",
                    command=patch.command,
                    exit=patch.exit,
                    outcome=patch.outcome,
                    stdout=patch.stdout,
                    stderr=patch.stderr,
                )
            case BuildCheck() | StaticCheck() | AcceptanceExecution() as check:
                return cls(
                    seq=event.seq,
                    name=check.check_id,
                    kind="check",
                    subject=check.subject,
                    variant=check.variant if isinstance(check, AcceptanceExecution) else "plain",
                    attempt=check.attempt,
                    is_moot=is_moot,
                    command=check.command,
                    exit=check.exit,
                    outcome=check.outcome,
                    stdout=check.stdout,
                    stderr=check.stderr,
                )
            case _:
                return None
