"""`contract import --format swebench`: an instance of the data set as a contract directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from repotrial._core.display import list_some
from repotrial._core.errors import ContractError, UsageError
from repotrial.authoring._leaks import TextChange, check_leaks
from repotrial.authoring._project import (
    CommitContract,
    CreatedContract,
    Project,
    build_glob,
    drop_matching,
    survey_project,
)
from repotrial.authoring._python_tests import list_test_ids
from repotrial.authoring._split import KnownTestPaths
from repotrial.authoring._swebench_instance import (
    InstanceTrees,
    NodeId,
    SwebenchInstance,
    find_sympy_nodes,
    open_instance_trees,
    parse_django_id,
    parse_node_id,
)
from repotrial.authoring._task_rows import SWEBENCH_INSTANCE_INVALID
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.authoring._text import clean_line, clean_text
from repotrial.authoring._writing import (
    CHECK_ID,
    REFERENCE_FILE,
    build_check,
    build_guesses,
    build_id,
    build_repository,
    build_title,
    check_packages,
    check_source,
    copy_file,
    copy_python_lock,
    finish,
    stage_directory,
    write_inventory,
)
from repotrial.contract import CONTRACT_FILE, STATEMENT_FILE, Check, Inventory, Overlay, Problem
from repotrial.source import COMMIT_NOT_FOUND, ChangeStatus, resolve_commit

_CHECK_DIRECTORY = f"checks/{CHECK_ID}"
_SHOWN = 5
_OTHER_RUNNERS = {"django/django": "django", "sympy/sympy": "sympy"}
"""Projects whose tests have ids of a runner of their own."""
_KIND = Guess(field="kind", value="bug-fix", reason="most instances are issues about bugs")


class SwebenchContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract to be made of an instance."""

    instance: SwebenchInstance
    source: str
    """The project's git repository: a path, a URL or a bundle."""
    directory: Path
    """Where the contract goes: absent, or empty."""
    python_lock: Path | None = None
    """A requirements file with hashes: what the tests need, pytest included."""
    is_embedded: bool = False
    """Put the tree beside the contract, as an archive without history, in place of naming the repository."""


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The instance's lists, read."""

    failing: tuple[NodeId, ...]
    passing: tuple[NodeId, ...]
    cut: tuple[str, ...]
    """Ids that stay out, because the data set lost a part of them."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.path for node in (*self.failing, *self.passing)))

    @property
    def inventory(self) -> Inventory:
        return Inventory(
            fail_to_pass=tuple(dict.fromkeys(node.junit_id for node in self.failing)),
            pass_to_pass=tuple(dict.fromkeys(node.junit_id for node in self.passing)),
        )


def create_contract_from_swebench(options: SwebenchContract) -> CreatedContract:
    """Write a contract: the issue as statement, the tests hidden, the gold patch as reference.

    Nothing of the repository is executed, and nothing of the instance is evaluated.

    Raises:
        SWEBENCH_INSTANCE_INVALID: the instance cannot become a contract.
        CHANGE_WITHOUT_TESTS, TEST_FILE_UNSUPPORTED: its tests cannot become a check.
        CONTRACT_DIRECTORY_TAKEN: the directory is not empty.
    """
    instance = options.instance
    target = options.directory.absolute()
    with stage_directory(target) as staging:
        # Before anything is looked for: a row that no repository could help is told at once.
        _verify_forms(instance)
        commit = _find_base(options)
        with open_instance_trees(instance, options.source, commit) as trees:
            listed = _read_lists(instance, trees)
            _verify_files(instance, listed, trees)
            return _write(options, listed, trees, staging, target)


def _find_base(options: SwebenchContract) -> str:
    """The instance's base in the given repository; of many instances, the error says which one misses it."""
    instance = options.instance
    try:
        return resolve_commit(options.source, instance.base_commit, base=Path.cwd())
    except ContractError as error:
        if error.code != COMMIT_NOT_FOUND:
            raise
        raise COMMIT_NOT_FOUND.error(
            f"{instance.instance_id}: base_commit: {error.message}",
            hint=f"name with --repo a repository of {clean_line(instance.repo)}, with its whole history",
        ) from error


def _verify_forms(instance: SwebenchInstance) -> None:
    failing = instance.list_failing()
    instance.list_passing()
    if not failing:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{instance.instance_id}: FAIL_TO_PASS: expected test ids, found none",
            hint="a contract needs a test that is to turn: name one, or leave the instance out",
        )
    for text in failing:
        node = parse_node_id(text)
        if node is not None and node.is_cut:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{instance.instance_id}: FAIL_TO_PASS: expected whole ids, found one that is cut: {text!r}",
                hint="write the id as pytest prints it",
            )
        if node is None and not _OTHER_RUNNERS.get(instance.repo):
            raise _refuse_id(instance, text)


def _refuse_id(instance: SwebenchInstance, text: str) -> UsageError:
    return SWEBENCH_INSTANCE_INVALID.error(
        f"{instance.instance_id}: FAIL_TO_PASS: expected ids of pytest, Django's or SymPy's runner, "
        f"found {text[:200]!r}",
        hint="only instances whose tests have such ids can be imported; leave this one out",
    )


def _read_lists(instance: SwebenchInstance, trees: InstanceTrees) -> _Listed:
    """The lists as nodes: in the order of the data set, what cannot be mapped only in PASS_TO_PASS."""
    sources = {
        path: text for path in trees.laid if path.endswith(".py") and (text := trees.tested.read_text(path))
    }
    failing: list[NodeId] = []
    for text in instance.list_failing():
        nodes = _find_nodes(instance, text, sources)
        if not nodes:
            raise _refuse_id(instance, text)
        failing += nodes
    passing: list[NodeId] = []
    cut: list[str] = []
    for text in instance.list_passing():
        # Logs leave pieces behind (`[100%]`); the ids that must turn have shown which runner it is.
        kept = [node for node in _find_nodes(instance, text, sources) if not node.is_cut]
        passing += kept
        cut += [] if kept else [text]
    return _Listed(failing=tuple(failing), passing=tuple(passing), cut=tuple(cut))


def _find_nodes(instance: SwebenchInstance, text: str, sources: Mapping[str, str]) -> list[NodeId]:
    node = parse_node_id(text)
    if node is not None:
        return [node]
    match _OTHER_RUNNERS.get(instance.repo):
        case "django":
            found = parse_django_id(text)
            return [] if found is None else [found]
        case "sympy":
            return find_sympy_nodes(text, sources)
        case _:
            return []


def _verify_files(instance: SwebenchInstance, listed: _Listed, trees: InstanceTrees) -> None:
    for path in listed.files:
        if trees.tested.read_text(path) is None:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{instance.instance_id}: expected a test file {path!r} after test_patch, found none",
                hint="let test_patch bring the file, or take its ids out of FAIL_TO_PASS and PASS_TO_PASS",
            )


def _write(
    options: SwebenchContract, listed: _Listed, trees: InstanceTrees, staging: Path, target: Path
) -> CreatedContract:
    instance = options.instance
    common = CommitContract(
        source=options.source,
        directory=target,
        revision=trees.base.commit,
        id=instance.contract_id,
        ecosystem="python",
        is_embedded=options.is_embedded,
        python_lock=options.python_lock,
    )
    project = survey_project(common, trees.base, test_files=listed.files)
    for path in trees.laid:
        copy_file(trees.tested.root / path, staging / _CHECK_DIRECTORY / path)
    write_inventory(staging, listed.inventory)
    (staging / REFERENCE_FILE).write_bytes(trees.patch)
    title, statement = _build_statement(instance)
    draft = ContractDraft(
        id=build_id(common, title),
        title=title,
        kind="bug-fix",
        reference=REFERENCE_FILE,
        ecosystem=project.ecosystem,
        repository=build_repository(common, trees.base, staging),
        check=_build_check(project, listed, trees),
        protected=(protected := _list_protected(project, listed, trees)),
        generated=drop_matching(project.generated, _list_touched(trees)),
        base_commit=trees.base.commit,
        origin=_build_origin(instance),
        guesses=(*build_guesses(project, protected=protected), _KIND),
        python_lock=copy_python_lock(options.python_lock, staging),
    )
    problems = [
        *check_source(common),
        *check_packages(common, project),
        *_iter_problems(listed, trees, statement),
        *_iter_environment_problems(instance),
    ]
    return finish(staging, target, draft=draft, statement=statement, problems=problems)


def _build_check(project: Project, listed: _Listed, trees: InstanceTrees) -> Check:
    overlay = Overlay(source=_CHECK_DIRECTORY, target=".", delete=trees.removed)
    return build_check(project, inventory=listed.inventory, overlays=(overlay,))


def _list_protected(project: Project, listed: _Listed, trees: InstanceTrees) -> tuple[str, ...]:
    """Every file that decides about the verdict, the reference's own files aside."""
    tests = dict.fromkeys((*trees.laid, *trees.removed, *listed.files))
    return drop_matching([*map(build_glob, tests), *project.hooks], _list_touched(trees))


def _list_touched(trees: InstanceTrees) -> list[str]:
    return [change.path for change in trees.reference]


def _build_origin(instance: SwebenchInstance) -> str:
    release = f", release {instance.version}" if instance.version else ""
    setup = instance.environment_setup_commit
    made = f"\nIts authors made the environment from the commit {setup}." if setup else ""
    name = f"{instance.instance_id} of {instance.repo}{release}"
    return "\n".join(
        clean_line(line)
        for line in f"A contract for RepoTrial, from the SWE-bench instance {name}.{made}".split("\n")
    )


def _build_statement(instance: SwebenchInstance) -> tuple[str, str]:
    """The issue's text: its first line as the title, the rest as it is."""
    first, _, rest = clean_text(instance.problem_statement).strip().partition("\n")
    title = build_title(first.strip("# \t") or instance.contract_id)
    # A first line that is too long for a title is kept whole, and so is one that is all there is.
    is_title = bool(rest.strip()) and clean_line(first).strip("# ") == title
    body = rest.strip("\n") if is_title else f"{first}\n{rest}".strip("\n")
    return title, f"# {title}\n\n{body}\n" if body else f"# {title}\n"


def _iter_problems(listed: _Listed, trees: InstanceTrees, statement: str) -> Iterator[Problem]:
    yield Problem(
        code="draft-statement-issue",
        severity="warning",
        file=STATEMENT_FILE,
        message="expected a statement of the problem, found the text of the issue",
        hint="read it: does it say all that the hidden tests ask for, and nothing of the solution?",
    )
    changes = [
        TextChange(
            path=change.path,
            old=None if change.status is ChangeStatus.ADDED else trees.base.read_text(change.path) or "",
            new=None if change.status is ChangeStatus.DELETED else trees.fixed.read_text(change.path) or "",
        )
        for change in trees.reference
    ]
    yield from check_leaks(statement, changes, hidden_paths=trees.laid, file=STATEMENT_FILE)
    tests = KnownTestPaths()
    for path in (path for path in (*trees.laid, *trees.removed) if path not in tests):
        yield Problem(
            code="draft-overlay-other-file",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].files",
            message=f"expected test_patch to touch tests only, found {path!r}",
            hint="a candidate's change of this file never counts; take it out of the check if it should",
        )
    yield from _iter_list_problems(listed, trees)


def _iter_environment_problems(instance: SwebenchInstance) -> Iterator[Problem]:
    """What the row says about where its tests run, and the draft does not have."""
    for column, image in instance.images.items():
        yield Problem(
            code="draft-image-unused",
            severity="warning",
            file=CONTRACT_FILE,
            field="environment.image",
            message=f"expected the row's {column} {clean_line(image)!r}, found this machine's own tools",
            hint=f"`skopeo copy --preserve-digests docker://{clean_line(image)} oci-archive:image.tar`, "
            'put the file beside the contract and write image = "oci:image.tar"; or go on without it',
        )
    runner = _OTHER_RUNNERS.get(instance.repo)
    if runner is not None:
        yield Problem(
            code="draft-runner-other",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].run",
            message=f"expected {runner}'s own runner as in the data set, found pytest with the same tests",
            hint="name pytest in the lock (for Django pytest-django too, with "
            'variables = { DJANGO_SETTINGS_MODULE = "test_sqlite", PYTHONPATH = "tests" })',
        )


def _iter_list_problems(listed: _Listed, trees: InstanceTrees) -> Iterator[Problem]:
    if listed.cut:
        yield Problem(
            code="draft-test-cut",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].inventory",
            message=f"expected whole test ids, found others, which were left out: {_show(listed.cut)}",
            hint="run the check on the reference change and add the ids",
        )
    named = {
        msgspec.structs.replace(node, parameters="").junit_id for node in (*listed.failing, *listed.passing)
    }
    for path in listed.files:
        others = [
            test for test in list_test_ids(path, trees.tested.read_text(path) or "") if test not in named
        ]
        if others:
            yield Problem(
                code="draft-test-unlisted",
                severity="warning",
                file=CONTRACT_FILE,
                field="checks[0].run",
                message=f"{path}: expected every test in one of the lists, found others: {_show(others)}",
                hint="all tests of a file count here: deselect those that fail with the reference, too",
            )


def _show(names: Sequence[str]) -> str:
    return list_some([repr(name) for name in names], most=_SHOWN)
