"""`contract new`: a contract directory that loads, with a form where the author has to write."""

from __future__ import annotations

from pathlib import Path

from repotrial.authoring._base import Tree, open_tree
from repotrial.authoring._project import (
    CreatedContract,
    NewContract,
    Project,
    list_test_directories,
    survey_project,
)
from repotrial.authoring._python_tests import PythonTestFile, build_python_inventory, is_test_module
from repotrial.authoring._statement import render_statement_form
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.authoring._writing import (
    STATEMENT_IS_FORM,
    build_check,
    build_guesses,
    build_id,
    build_repository,
    build_title,
    check_inventory,
    check_packages,
    check_source,
    copy_python_lock,
    finish,
    stage_directory,
    write_inventory,
)
from repotrial.contract import CONTRACT_FILE, Inventory, Problem
from repotrial.source import resolve_commit


def create_contract(options: NewContract) -> CreatedContract:
    """Write a contract directory on a commit of a repository; nothing of the repository is executed.

    Raises:
        CONTRACT_OPTION_INVALID: the title or the id is none that a contract can hold.
        CONTRACT_DIRECTORY_TAKEN: the directory is not empty.
        ECOSYSTEM_UNKNOWN: nothing tells how the project is tested.
    """
    title = build_title(options.title)
    id_ = build_id(options, title)
    target = options.directory.absolute()
    with stage_directory(target) as staging:
        commit = resolve_commit(options.source, options.revision, base=Path.cwd())
        with open_tree(options.source, commit) as tree:
            project = survey_project(options, tree)
            inventory = _read_inventory(project, tree) if options.command is None else None
            write_inventory(staging, inventory)
            protected = (*list_test_directories(tree), *project.hooks)
            draft = ContractDraft(
                id=id_,
                title=title,
                kind=options.kind,
                ecosystem=project.ecosystem,
                reference=None,
                repository=build_repository(options, tree, staging),
                check=build_check(project, inventory=inventory, overlays=()),
                protected=protected,
                generated=project.generated,
                base_commit=commit,
                origin="A contract for RepoTrial.",
                guesses=(*build_guesses(project, protected=protected), *_list_guesses(inventory)),
                python_lock=copy_python_lock(options.python_lock, staging),
            )
            problems = [
                *check_source(options),
                *check_packages(options, project),
                *check_inventory(project, inventory),
                *_list_duties(),
            ]
            return finish(
                staging, target, draft=draft, statement=render_statement_form(title), problems=problems
            )


def _read_inventory(project: Project, tree: Tree) -> Inventory | None:
    """The tests that the snapshot has, which a change must not break."""
    if not project.is_python:
        return None
    texts = {path: tree.read_text(path) for path in tree.list_files() if is_test_module(path)}
    # Equal on both sides: nothing has changed yet.
    files = [
        PythonTestFile(path=path, old=text, new=text) for path, text in texts.items() if text is not None
    ]
    inventory = build_python_inventory(files).inventory
    return inventory if inventory.pass_to_pass else None


def _list_guesses(inventory: Inventory | None) -> list[Guess]:
    baseline = Guess(
        field="checks[0].baseline", value="fail", reason="true once a test shows what the statement describes"
    )
    if inventory is None:
        return [baseline]
    ids = Guess(
        field="checks[0].inventory",
        value=f"{len(inventory.pass_to_pass)} ids",
        reason="the tests that the source shows; add those that the change must turn under fail_to_pass",
    )
    return [baseline, ids]


def _list_duties() -> list[Problem]:
    return [
        STATEMENT_IS_FORM,
        Problem(
            code="draft-nothing-fails",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0]",
            message="expected a check that fails on the snapshot, found only the project's own tests",
            hint="add a test of your own under checks/tests and its id to the inventory",
        ),
    ]
