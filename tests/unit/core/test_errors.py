from __future__ import annotations

import gc

import pytest

from repotrial._core.errors import (
    AgentError,
    Blame,
    ContractError,
    EvidenceError,
    ExitCode,
    MachineError,
    RepoTrialError,
    UsageError,
    iter_error_classes,
)


def test_every_blame_has_exactly_one_root() -> None:
    roots = RepoTrialError.__subclasses__()
    assert {root.blame for root in roots} == set(Blame)
    assert len(roots) == len(Blame)


@pytest.mark.parametrize(
    ("root", "code"),
    [
        (UsageError, ExitCode.BAD_INPUT),
        (ContractError, ExitCode.BAD_INPUT),
        (MachineError, ExitCode.MACHINE_CANNOT),
        (AgentError, ExitCode.DOES_NOT_HOLD),
        (EvidenceError, ExitCode.DOES_NOT_HOLD),
    ],
)
def test_the_class_decides_the_exit_code(root: type[RepoTrialError], code: ExitCode) -> None:
    assert root("message").exit_code is code


def test_a_code_belongs_to_one_class() -> None:
    codes = [cls.code for cls in iter_error_classes()]
    assert len(codes) == len(set(codes))
    with pytest.raises(TypeError, match="belongs to"):
        type("StolenError", (UsageError,), {"code": "machine"})
    with pytest.raises(TypeError, match="belongs to"):  # the same name elsewhere is another class
        type("MachineError", (UsageError,), {"code": "machine"})
    gc.collect()  # the refused class must not stay among its base's subclasses


def test_a_code_that_is_not_kebab_case_is_refused() -> None:
    with pytest.raises(TypeError, match="kebab-case"):
        type("BadCodeError", (UsageError,), {"code": "Not_Kebab"})
    gc.collect()


def test_an_error_speaks_to_machines() -> None:
    error = MachineError("expected git, found none", hint="apt-get install git")
    assert error.to_dict() == {
        "blame": "machine",
        "code": "machine",
        "hint": "apt-get install git",
        "message": "expected git, found none",
    }
