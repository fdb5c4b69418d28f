from __future__ import annotations

import pickle

import pytest

from repotrial._core.errors import (
    ERROR_CODES,
    MACHINE,
    USAGE,
    AgentError,
    Blame,
    ContractError,
    ErrorCode,
    EvidenceError,
    ExitCode,
    MachineError,
    RepoTrialError,
    UsageError,
)
from support.errors import raises_code


def test_every_blame_has_exactly_one_class() -> None:
    classes = RepoTrialError.__subclasses__()
    assert {cls.blame for cls in classes} == set(Blame)
    assert len(classes) == len(Blame)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, ExitCode.BAD_INPUT),
        (ContractError, ExitCode.BAD_INPUT),
        (MachineError, ExitCode.MACHINE_CANNOT),
        (AgentError, ExitCode.DOES_NOT_HOLD),
        (EvidenceError, ExitCode.DOES_NOT_HOLD),
    ],
)
def test_the_class_decides_the_exit_code(kind: type[RepoTrialError], code: ExitCode) -> None:
    assert kind("made-up", "message").exit_code is code


def test_a_code_declared_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="'usage' is declared twice"):
        ErrorCode("usage", UsageError, "The same again.")
    assert ERROR_CODES["usage"] is USAGE


@pytest.mark.parametrize("code", ["Not_Kebab", "", "ends-", "-starts", "two--dashes", "line\n"])
def test_a_code_that_is_not_kebab_case_is_refused(code: str) -> None:
    with pytest.raises(TypeError, match="kebab-case"):
        ErrorCode(code, UsageError, "Badly named.")
    assert code not in ERROR_CODES


def test_an_error_speaks_to_machines() -> None:
    error = MACHINE.error("expected git, found none", hint="apt-get install git")
    assert error.to_dict() == {
        "blame": "machine",
        "code": "machine",
        "hint": "apt-get install git",
        "message": "expected git, found none",
    }
    assert str(error) == error.message


def test_an_error_has_the_class_and_the_hint_of_its_code() -> None:
    code = ERROR_CODES["contract-invalid"]
    error = code.error("expected a contract, found none", details=["a", "b"])
    assert (type(error), error.code, error.hint) == (ContractError, code, code.hint)
    assert error.details == ("a", "b")
    assert code.error("the same", hint="").hint == ""


def test_the_code_of_an_error_is_a_plain_string() -> None:
    """Serializers refuse subclasses of it."""
    assert type(USAGE.error("wrong").code) is str


def test_an_error_survives_a_copy() -> None:
    error = pickle.loads(pickle.dumps(USAGE.error("wrong", hint="right", details=(1,))))
    assert (type(error), error.code, error.message, error.hint) == (UsageError, "usage", "wrong", "right")
    assert error.details == (1,)


def test_an_error_with_another_code_is_not_the_one_expected() -> None:
    with raises_code("machine", "usage", match="^wro"):
        raise USAGE.error("wrong")
    with pytest.raises(AssertionError, match="expected machine, found usage: wrong"), raises_code("machine"):
        raise USAGE.error("wrong")
    with pytest.raises(AssertionError, match="wrong"), raises_code("usage", match="right"):
        raise USAGE.error("wrong")
