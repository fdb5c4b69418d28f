from __future__ import annotations

import ast
import gc
from pathlib import Path

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

SOURCE = Path(__file__).parents[3] / "src"


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


def test_every_code_can_be_raised() -> None:
    """An error class that the source neither raises nor hands to a function is no error of ours."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    raised = {node.exc.id for node in nodes if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name)}
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        values = [call.func, *call.args, *(keyword.value for keyword in call.keywords)]
        raised |= {value.id for value in values if isinstance(value, ast.Name)}
        raised |= {value.attr for value in values if isinstance(value, ast.Attribute)}
    coded = {
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and _has_code(node)
    }
    assert len(coded) > len(Blame)
    assert coded - raised == set()


def _has_code(node: ast.ClassDef) -> bool:
    return any(
        isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code"
        for statement in node.body
    )
