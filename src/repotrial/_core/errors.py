"""One error tree. The class says who has to act; the code says what happened; the hint says what to do.

    RepoTrialError
    ├── UsageError      the command was called wrongly
    ├── ContractError   the contract (or another input document) is wrong
    ├── MachineError    this machine cannot do it
    ├── AgentError      the agent under trial broke its protocol
    └── EvidenceError   the record does not hold

A code is declared once, beside what raises it, with its entry in the catalogue (`docs/reference/errors.md`):

    LOCK_MISSING = ErrorCode("lock-missing", ContractError, "The contract has no lock.", hint="write one")

    raise LOCK_MISSING.error(f"{path}: expected a lock, found none")

What handles one code catches the class and passes on the rest:

    except ContractError as error:
        if error.code != LOCK_MISSING:
            raise
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


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
        code: What happened: an `ErrorCode`, whose `error` makes the error with its own class and hint.
        message: What was expected and what was found, with the file and the field where there is one.
        hint: What to do about it.
        details: What the message lists, for callers that look at single entries.
    """

    blame: ClassVar[Blame]
    exit_code: ClassVar[ExitCode]

    def __init__(self, code: str, message: str, *, hint: str = "", details: Iterable[Any] = ()) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = tuple(details)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, str]:
        """The error as machines read it (`--json`)."""
        return {
            "code": self.code,
            "blame": self.blame.value,
            "message": self.message,
            "hint": self.hint,
        }


class UsageError(RepoTrialError):
    """The command was called in a way that it does not understand."""

    blame = Blame.USAGE
    exit_code = ExitCode.BAD_INPUT


class ContractError(RepoTrialError):
    """An input document (contract, lock, repository source) is wrong."""

    blame = Blame.CONTRACT
    exit_code = ExitCode.BAD_INPUT


class MachineError(RepoTrialError):
    """This machine cannot do what was asked."""

    blame = Blame.MACHINE
    exit_code = ExitCode.MACHINE_CANNOT


class AgentError(RepoTrialError):
    """The agent under trial did not keep its side of the protocol."""

    blame = Blame.AGENT
    exit_code = ExitCode.DOES_NOT_HOLD


class EvidenceError(RepoTrialError):
    """A trace, a seal or another piece of evidence does not hold."""

    blame = Blame.EVIDENCE
    exit_code = ExitCode.DOES_NOT_HOLD


E_co = TypeVar("E_co", bound=RepoTrialError, covariant=True)


class ErrorCode(str, Generic[E_co]):
    """The stable kebab-case name of something that can go wrong, and all that is always true of it.

    Args:
        code: The name; declared once.
        kind: The class of the errors, which says who has to act.
        description: Its entry in the catalogue.
        hint: What to do, unless the place that raises it knows better.
    """

    __slots__ = ("description", "hint", "kind")

    kind: type[E_co]
    description: str
    hint: str

    def __new__(cls, code: str, kind: type[E_co], description: str, *, hint: str = "") -> Self:
        if not _CODE.fullmatch(code):
            raise TypeError(f"error codes are kebab-case, found {code!r}")
        if code in ERROR_CODES:
            raise TypeError(f"the error code {code!r} is declared twice")
        self = super().__new__(cls, code)
        self.kind, self.description, self.hint = kind, description, hint
        ERROR_CODES[code] = self
        return self

    def error(self, message: str, *, hint: str | None = None, details: Iterable[Any] = ()) -> E_co:
        """The error to raise."""
        # A plain string: serializers refuse subclasses of it.
        return self.kind(str(self), message, hint=self.hint if hint is None else hint, details=details)


ERROR_CODES: Final[dict[str, ErrorCode[RepoTrialError]]] = {}
"""Every code that has been declared so far."""

USAGE = ErrorCode("usage", UsageError, "The command was called in a way that it does not understand.")
MACHINE = ErrorCode("machine", MachineError, "This machine cannot do what was asked.")
