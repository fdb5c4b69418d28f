"""`contract new --from-commit`: a merged change taken apart into hidden checks, reference and statement."""

from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial.authoring._base import CommitTree, open_tree
from repotrial.authoring._leaks import TextChange, check_leaks
from repotrial.authoring._project import (
    CommitContract,
    CreatedContract,
    Project,
    build_glob,
    drop_matching,
    survey_project,
)
from repotrial.authoring._proof._prove import ProofSettings
from repotrial.authoring._proved_draft import DraftFiles, DraftTrees, write_proved
from repotrial.authoring._python_tests import (
    InventoryGuess,
    PythonTestFile,
    build_python_inventory,
    is_test_module,
)
from repotrial.authoring._split import KnownTestPaths, Split, split_change
from repotrial.authoring._statement import StatementDraft, build_statement_draft, guess_kind
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.authoring._writing import (
    CHECK_ID,
    LOCK_FILE,
    REFERENCE_FILE,
    STATEMENT_IS_FORM,
    build_check,
    build_guesses,
    build_id,
    build_repository,
    build_title,
    check_inventory,
    check_packages,
    check_source,
    copy_file,
    copy_python_lock,
    finish,
    stage_directory,
    write_inventory,
)
from repotrial.contract import (
    CONTRACT_FILE,
    STATEMENT_FILE,
    ArchiveRepository,
    GitRepository,
    Inventory,
    Overlay,
    Problem,
)
from repotrial.source import ChangeStatus, CommitInfo, open_history

_CHECK_DIRECTORY = f"checks/{CHECK_ID}"


_TITLE_IS_SUBJECT = Problem(
    code="draft-title-message",
    severity="warning",
    file=CONTRACT_FILE,
    field="title",
    message="expected a title that names the problem, found the commit's subject: the agent reads it first",
    hint="reword `title`, or give one with --title",
)
_ID_IS_SUBJECT = msgspec.structs.replace(
    _TITLE_IS_SUBJECT,
    message="expected a title and an id that name the problem, found the commit's subject in both: the agent "
    "reads the title first",
    hint="reword `title` and `id`, or give them with --title and --id",
)


class _Material(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the drafting steps look at."""

    options: CommitContract
    info: CommitInfo
    split: Split
    patch: bytes
    """The change without its tests."""
    base: CommitTree
    head: CommitTree
    statement: StatementDraft
    proving: ProofSettings | None


def create_contract_from_commit(
    options: CommitContract, proving: ProofSettings | None = None
) -> CreatedContract:
    """Write a contract from a change: its tests hidden, the rest as reference, the message as statement.

    Args:
        options: Which change, and what the author states.
        proving: Run the tests, in a sandbox, and take the inventory from what happens. Without it nothing of
            the repository is executed, so that test ids are those that the source shows (Python), or none.

    Raises:
        ROOT_COMMIT, EMPTY_CHANGE, SUBMODULE_CHANGED, CHANGE_WITHOUT_TESTS,
        CHANGE_ONLY_TESTS, TEST_FILE_UNSUPPORTED: the change cannot become a contract.
        GLOB_INVALID, CONTRACT_OPTION_INVALID, ECOSYSTEM_UNKNOWN: the options do not suffice.
        CONTRACT_DIRECTORY_TAKEN: the directory is not empty.
    """
    tests = KnownTestPaths(options.test_globs)
    target = options.directory.absolute()
    title = None if options.title is None else build_title(options.title)
    with stage_directory(target) as staging, open_history(options.source, base=Path.cwd()) as history:
        info = history.read_commit(history.resolve_commit(options.revision))
        split = split_change(info, tests)
        before = info.parents[0]
        with open_tree(options.source, before) as base, open_tree(options.source, info.commit) as head:
            material = _Material(
                options=options,
                info=info,
                split=split,
                patch=history.build_patch(before, info.commit, excluded=split.tests),
                base=base,
                head=head,
                statement=build_statement_draft(info.message, title=title),
                proving=proving,
            )
            return _write(material, staging, target)


def _write(material: _Material, staging: Path, target: Path) -> CreatedContract:
    options, split = material.options, material.split
    project = survey_project(options, material.base, test_files=split.laid)
    guess = _read_inventory(material, project)
    inventory = guess.inventory if guess is not None and guess.has_ids else None
    for path in split.laid:
        copy_file(material.head.root / path, staging / _CHECK_DIRECTORY / path)
    write_inventory(staging, inventory)
    (staging / REFERENCE_FILE).write_bytes(material.patch)
    copy_python_lock(options.python_lock, staging)
    repository = build_repository(options, material.base, staging)
    draft = _build_draft(material, project, inventory=inventory, repository=repository)
    about = [*check_source(options), *_check_statement(material)]
    if material.proving is not None:
        files = DraftFiles(
            staging=staging,
            target=target,
            statement=material.statement.text,
            test_files=split.laid,
            problems=tuple(about),
        )
        return write_proved(draft, files, material.proving, trees=_list_trees(material, project))
    problems = [
        *about,
        *check_packages(options, project),
        *check_inventory(project, inventory),
        *_check_ids(guess),
    ]
    return finish(staging, target, draft=draft, statement=material.statement.text, problems=problems)


def _list_trees(material: _Material, project: Project) -> DraftTrees | None:
    """What a draft is completed from; None where the author chose the command, or nothing is known to do."""
    known = project.ecosystem is not None and project.ecosystem.name in {"python", "javascript"}
    if not known or material.options.command is not None:
        return None
    return DraftTrees(
        info=material.info,
        base=material.base,
        head=material.head,
        is_lock_given=material.options.python_lock is not None,
    )


def _build_draft(
    material: _Material,
    project: Project,
    *,
    inventory: Inventory | None,
    repository: GitRepository | ArchiveRepository,
) -> ContractDraft:
    options, split = material.options, material.split
    touched = [change.path for change in split.reference]
    protected = drop_matching([*map(build_glob, split.tests), *project.hooks], touched)
    guesses = [*build_guesses(project, protected=protected), *_list_guesses(inventory)]
    kind, reason = guess_kind(material.info.message)
    if options.kind is None:
        guesses.append(Guess(field="kind", value=kind, reason=reason))
    overlay = Overlay(source=_CHECK_DIRECTORY, target=".", delete=split.removed)
    return ContractDraft(
        id=build_id(options, material.statement.title),
        title=material.statement.title,
        kind=options.kind or kind,
        ecosystem=project.ecosystem,
        reference=REFERENCE_FILE,
        repository=repository,
        check=build_check(project, inventory=inventory, overlays=(overlay,)),
        protected=protected,
        generated=drop_matching(project.generated, touched),
        base_commit=material.base.commit,
        origin=f"A contract for RepoTrial, from the commit {material.info.commit}.",
        guesses=tuple(guesses),
        python_lock=None if options.python_lock is None else LOCK_FILE,
    )


def _read_inventory(material: _Material, project: Project) -> InventoryGuess | None:
    # A command of the author's own may report ids in any form, or none.
    if not project.is_python or material.options.command is not None:
        return None
    texts = [(path, material.head.read_text(path)) for path in material.split.laid if is_test_module(path)]
    return build_python_inventory(
        [
            PythonTestFile(path=path, old=material.base.read_text(path), new=text)
            for path, text in texts
            if text is not None
        ]
    )


def _check_statement(material: _Material) -> list[Problem]:
    changes = [
        TextChange(
            path=change.path,
            old=None if change.status is ChangeStatus.ADDED else material.base.read_text(change.path) or "",
            new=None if change.status is ChangeStatus.DELETED else material.head.read_text(change.path) or "",
        )
        for change in material.split.reference
    ]
    message = Problem(
        code="draft-statement-message",
        severity="warning",
        file=STATEMENT_FILE,
        message="expected a statement of the problem, found the commit message"
        + (", cut where it became too long" if material.statement.is_shortened else ""),
        hint="rewrite it: what is expected, what is observed, how to see it",
    )
    draft = STATEMENT_IS_FORM if material.statement.is_form else message
    hidden = material.split.laid
    leaks = check_leaks(material.statement.text, changes, hidden_paths=hidden, file=STATEMENT_FILE)
    return [*_check_names(material.options), draft, *leaks]


def _check_names(options: CommitContract) -> list[Problem]:
    if options.title is not None:
        return []
    return [_ID_IS_SUBJECT if options.id is None else _TITLE_IS_SUBJECT]


def _check_ids(guess: InventoryGuess | None) -> list[Problem]:
    if guess is None:
        return []
    if not guess.unknown:
        return []
    count = len(guess.unknown)
    more = f" (and {count - 1} more like it)" if count > 1 else ""
    return [
        Problem(
            code="draft-inventory-unknown",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].inventory",
            message=f"expected the id of every test, found that {guess.unknown[0]}{more}",
            hint="let the tests run: leave out --no-try",
        )
    ]


def _list_guesses(inventory: Inventory | None) -> list[Guess]:
    baseline = Guess(field="checks[0].baseline", value="fail", reason="the tests came with the change")
    if inventory is None:
        return [baseline]
    ids = Guess(
        field="checks[0].inventory",
        value=f"{len(inventory.fail_to_pass)} + {len(inventory.pass_to_pass)} ids",
        reason="changed tests fail before and pass after, the others of these files pass always;"
        " read from the source, nothing was run",
    )
    return [baseline, ids]
