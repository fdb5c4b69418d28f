"""One error tree. The class says who is to blame; the code says what happened; the hint says what to do.

    RepoTrialError
    ├── UsageError      the command was called wrongly
    ├── ContractError   the contract (or another input document) is wrong
    ├── MachineError    this machine cannot do it
    ├── AgentError      the agent under trial broke its protocol
    └── EvidenceError   the record does not hold

Roots live here; leaves live beside the code that raises them. What is raised has a stable kebab-case `code`,
a docstring that becomes its entry in the catalogue (`docs/reference/errors.md`), and a default `hint`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import ClassVar, Final

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_HOLDERS: Final[dict[str, tuple[str, str]]] = {}
"""Module and name of the class that has each code."""


class Blame(Enum):
    """Who has to act before the same command can succeed."""

    USAGE = "usage"
    CONTRACT = "contract"
    MACHINE = "machine"
    AGENT = "agent"
    EVIDENCE = "evidence"


class ExitCode(int, Enum):
    """What the command's exit status means; the same for every command."""

    DONE = 0
    """The command did what was asked."""
    DOES_NOT_HOLD = 1
    """The thing checked does not hold (a lint finding, a broken chain, an unmet expectation)."""
    BAD_INPUT = 2
    """The command line or an input document is wrong."""
    MACHINE_CANNOT = 3
    """This machine lacks something; the message says what and how to get it."""


class RepoTrialError(Exception):
    """Root of everything that RepoTrial raises on purpose.

    Args:
        message: What was expected and what was found, with the file and the field where there is one.
        hint: What to do about it; defaults to the class's own hint.
    """

    blame: ClassVar[Blame]
    exit_code: ClassVar[ExitCode]
    code: ClassVar[str] = ""
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        code = cls.__dict__.get("code")
        if code is None:
            return
        if not _CODE.fullmatch(code):
            raise TypeError(f"{cls.__name__}: error codes are kebab-case, found {code!r}")
        # A module that is imported anew defines its own classes again.
        module, name = _HOLDERS.setdefault(code, (cls.__module__, cls.__qualname__))
        if (module, name) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__name__}: the code {code!r} belongs to {name}")

    def to_dict(self) -> dict[str, str]:
        """The error as machines read it (`--json`)."""
        return {
            "code": self.code,
            "blame": self.blame.value,
            "message": self.message,
            "hint": self.hint,
        }


def iter_error_classes() -> Iterator[type[RepoTrialError]]:
    """Every error class with a code that has been imported so far, roots first."""
    queue: list[type[RepoTrialError]] = [RepoTrialError]
    while queue:
        cls = queue.pop(0)
        if cls.__dict__.get("code"):
            yield cls
        queue.extend(cls.__subclasses__())


class UsageError(RepoTrialError):
    """The command was called in a way that it does not understand."""

    blame = Blame.USAGE
    exit_code = ExitCode.BAD_INPUT
    code = "usage"


class ContractError(RepoTrialError):
    """An input document (contract, lock, repository source) is wrong."""

    blame = Blame.CONTRACT
    exit_code = ExitCode.BAD_INPUT


class MachineError(RepoTrialError):
    """This machine cannot do what was asked."""

    blame = Blame.MACHINE
    exit_code = ExitCode.MACHINE_CANNOT
    code = "machine"


class AgentError(RepoTrialError):
    """The agent under trial did not keep its side of the protocol."""

    blame = Blame.AGENT
    exit_code = ExitCode.DOES_NOT_HOLD


class EvidenceError(RepoTrialError):
    """A trace, a seal or another piece of evidence does not hold."""

    blame = Blame.EVIDENCE
    exit_code = ExitCode.DOES_NOT_HOLD
