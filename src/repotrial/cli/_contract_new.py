"""`repotrial contract new` and `contract import`: contracts from a repository, a change or a data set."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, ExitCode, RepoTrialError, UsageError
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, counted, print_error, print_json, print_problems

C = TypeVar("C", bound=str)


CONTRACT_NEW_MISSING_ANSWER = ErrorCode(
    "contract-new-missing-answer",
    UsageError,
    "`contract new` needs something that was neither given as a flag nor could be asked for.",
    hint="give it on the command line, or run the command on a terminal, without --json, to be asked",
)


class _Interview:
    """Asks where there is a terminal; typer ends it on Ctrl-C and Ctrl-D."""

    def __init__(self, *, is_possible: bool, is_thorough: bool) -> None:
        """Say how much may be asked.

        Args:
            is_possible: There is a terminal, and output is for people.
            is_thorough: Ask for what has a sensible default too.
        """
        self._is_possible = is_possible
        self._is_thorough = is_possible and is_thorough
        if self._is_thorough:
            typer.echo("Enter takes what stands in brackets; Ctrl-C leaves without writing anything.")

    def required(self, question: str, *, name: str, default: str | None = None) -> str:
        """An answer without which there is no contract; `name` is how the command line spells it."""
        if not self._is_possible:
            raise CONTRACT_NEW_MISSING_ANSWER.error(f"expected {name}, found none, and no terminal to ask at")
        return str(typer.prompt(question, default=default)).strip()

    def optional(self, question: str, *, otherwise: str) -> str | None:
        """An answer that may be left out; `otherwise` says what happens then."""
        if not self._is_thorough:
            return None
        answer = typer.prompt(f"{question} [{otherwise}]", default="", show_default=False)
        return str(answer).strip() or None

    def choice(self, question: str, choices: Sequence[C], *, otherwise: str) -> C | None:
        """One of the choices, or None; anything else is asked again."""
        if not self._is_thorough:
            return None

        def parse(answer: str) -> C | None:
            word = answer.strip().lower()
            found = next((choice for choice in choices if choice == word), None)
            if word and found is None:
                raise typer.BadParameter(f"expected one of {', '.join(choices)}")
            return found

        asked = f"{question} ({', '.join(choices)}) [{otherwise}]"
        answer: C | None = typer.prompt(asked, default="", show_default=False, value_proc=parse)
        return answer


_MAX_FILES_NAMED = 8


CONTRACT_NEW_CONFLICT = ErrorCode(
    "contract-new-conflict",
    UsageError,
    "Two options of `contract new` speak of different ways to make a contract.",
    hint="a merged change (--from-commit) has its own start and tests; --revision is for all others",
)


# Written out: importing the contract's own would load its models for every command. Tests hold them together.
KindChoice: TypeAlias = Literal[
    "bug-fix",
    "refactor",
    "dependency-upgrade",
    "api-migration",
    "documentation",
    "operational-hardening",
    "feature",
]
"""Kinds of work (C8)."""
EcosystemChoice: TypeAlias = Literal["python", "javascript", "rust", "go", "c"]
"""What `contract new` has templates for."""


def new_contract(  # noqa: PLR0913 - one option for each field that only the author can know
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", readable=False, help="Where the contract goes; absent or empty."),
    ] = None,
    *,
    repository: Annotated[
        str | None, typer.Option("--repository", "-r", metavar="SOURCE", help="A git path, URL or bundle.")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            "--revision", metavar="REV", help="The commit on which the agent starts; HEAD if left out."
        ),
    ] = None,
    from_commit: Annotated[
        str | None,
        typer.Option(
            "--from-commit",
            metavar="REV",
            help="Make the contract from this merged change: its tests become hidden checks, "
            "the rest the reference patch, its message the first draft of the statement.",
        ),
    ] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The contract's id; from the title if left out.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="One line for people.")] = None,
    kind: Annotated[
        KindChoice | None,
        typer.Option("--kind", metavar="KIND", help=f"The kind of work: {', '.join(get_args(KindChoice))}."),
    ] = None,
    ecosystem: Annotated[
        EcosystemChoice | None,
        typer.Option(
            "--ecosystem",
            metavar="NAME",
            help=f"{', '.join(get_args(EcosystemChoice))}; from the repository's files if left out.",
        ),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="LINE", help="The command line that judges the change.")
    ] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(
            "--tests", metavar="GLOB", help="With --from-commit: which files are tests (repeatable)."
        ),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Put the tree beside the contract, as an archive without history.")
    ] = False,
    python_lock: Annotated[
        Path | None,
        typer.Option(
            "--python-lock",
            metavar="FILE",
            readable=False,
            help="A requirements file with hashes: what the tests need, pytest included.",
        ),
    ] = None,
    is_tried: Annotated[
        bool,
        typer.Option(
            "--try/--no-try",
            help="With --from-commit: run the tests on the parent and on the change, three times each, "
            "and take the inventory from what happens.",
        ),
    ] = True,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Scaffold a valid contract from a repository, or from a merged change of your own.

    With --from-commit, the tests of the change are run in a sandbox before the draft is left.

    On a terminal, what is needed and not given is asked for; without --repository, the rest is offered too.
    """
    if from_commit is not None and revision is not None:
        raise CONTRACT_NEW_CONFLICT.error("expected --revision or --from-commit, found both")
    interview = _Interview(
        is_possible=not json and sys.stdin.isatty() and sys.stdout.isatty(), is_thorough=repository is None
    )
    target = directory or Path(interview.required("Directory to write", name="DIR", default="new-contract"))
    source = repository or interview.required(
        "Repository: path, URL or bundle", name="--repository", default="."
    )
    if from_commit is None and revision is None and title is None:
        from_commit = interview.optional("Commit of a merged change", otherwise="none: start from scratch")
    if from_commit is None and tests:
        raise CONTRACT_NEW_CONFLICT.error("expected --from-commit beside --tests, found none")
    if from_commit is not None:
        options: api.NewContract | api.CommitContract = api.CommitContract(
            source=source,
            directory=target,
            revision=from_commit,
            id=identifier or _ask_id(interview),
            title=title,
            kind=kind or _ask_kind(interview, otherwise="guessed from the message"),
            ecosystem=ecosystem,
            command=command,
            is_embedded=embed,
            python_lock=python_lock,
            test_globs=tuple(tests or ()),
        )
    else:
        options = api.NewContract(
            source=source,
            directory=target,
            revision=revision or "HEAD",
            title=title or interview.required("Title, one line for people", name="--title"),
            id=identifier or _ask_id(interview),
            kind=kind or _ask_kind(interview, otherwise="bug-fix") or "bug-fix",
            ecosystem=ecosystem,
            command=command,
            is_embedded=embed,
            python_lock=python_lock,
        )
    machine = build_settings(cache) if is_tried and from_commit is not None else None
    created = api.create_contract(options, machine, ignore_step if json else tell_step)
    if json:
        print_json(created)
    else:
        show_created(created)


def tell_step(step: str) -> None:
    """Progress, for people."""
    Screen(to_stderr=True).line((f"trying: {step}", "dim"))


def ignore_step(step: str) -> None:
    """Beside --json."""
    del step


def _ask_id(interview: _Interview) -> str | None:
    return interview.optional("Id", otherwise="made from the title")


def _ask_kind(interview: _Interview, *, otherwise: str) -> KindChoice | None:
    return interview.choice("Kind of work", get_args(KindChoice), otherwise=otherwise)


def show_created(created: api.CreatedContract) -> None:
    """What was written, for people, and what is left for them to do."""
    screen = Screen()
    screen.line((f"written: {created.directory}", "bold"))
    screen.line(f"  {created.id}: {created.title}")
    screen.line(f"  the agent starts on {created.base_commit}")
    named, more = created.files[:_MAX_FILES_NAMED], len(created.files) - _MAX_FILES_NAMED
    rest = f" and {more} more" if more > 0 else ""
    screen.line(f"  {counted(len(created.files), 'file')}: {', '.join(named)}{rest}")
    for guess in created.guesses:
        word = "found" if guess.is_seen else "guessed"
        screen.line((f"  {word} {guess.field} = {guess.value} ({guess.reason})", "dim"))
    show_proof(screen, created)
    if created.problems:
        screen.line(("left for you:", "bold"))
        print_problems(screen, created)
    is_title_left = any(problem.field == "title" for problem in created.problems)
    what = "statement.md and the title" if is_title_left else "statement.md"
    directory = shlex.quote(created.directory)
    if created.missing is not None:
        screen.line(("missing: ", "bold yellow"), created.missing)
    verb = "check" if created.proof is None else "lock"
    screen.line(f"next: edit {what}, then `repotrial contract {verb} {directory}`")


def show_proof(screen: Screen, created: api.CreatedContract | api.ProvedContract) -> None:
    """What the tests did, in a line."""
    if (proof := created.proof) is not None:
        head = ("  proved: ", "green") if proof.is_proved else ("  not proved: ", "bold yellow")
        screen.line(head, proof.describe())


_ImportFormat: TypeAlias = Literal["swebench", "harbor"]
"""What can be read."""


def import_contracts(  # noqa: PLR0913 - one option for each thing that the file does not say
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            readable=False,
            help="Instances: a JSON object, an array, one object per line, or a directory of tasks.",
        ),
    ],
    *,
    repository: Annotated[
        str | None,
        typer.Option("--repo", metavar="SOURCE", help="The project's repository: a git path, URL or bundle."),
    ] = None,
    repos: Annotated[
        Path | None,
        typer.Option(
            "--repos",
            metavar="DIR",
            help="Repositories of several projects: owner/name, owner__name or name.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Each contract becomes a directory below this one.")
    ] = Path(),
    format_: Annotated[
        _ImportFormat,
        typer.Option(
            "--format", metavar="NAME", help="Whose format it is: swebench and its relatives, or harbor."
        ),
    ] = "swebench",
    instances: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="ID", help="Only this one (repeatable); all if left out."),
    ] = None,
    python_lock: Annotated[
        Path | None,
        typer.Option(
            "--python-lock",
            metavar="FILE",
            help="A requirements file with hashes: what the tests need, pytest included.",
        ),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Put the tree beside the contract, as an archive without history.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make contracts of a data set's instances: the issue becomes the statement, the tests hidden checks.

    Nothing of the repository is run. What the file leaves open is shown, as `contract new` does. Instances
    that have their contract already are skipped; one that is refused does not keep the others from theirs.
    """
    if format_ == "harbor":
        _survey_harbor(file, json=json)
        return
    if (repository is None) == (repos is None):
        raise typer.BadParameter("give --repo SOURCE, or --repos DIR for instances of several projects")
    entries: list[Any] = []
    words: Counter[str] = Counter()
    worst = ExitCode.DONE
    chosen = api.load_swebench_instances(file, instances or ())
    for instance in chosen:
        try:
            options = api.SwebenchContract(
                instance=instance,
                source=repository or str(api.find_checkout(repos or Path(), instance.repo)),
                directory=out / instance.contract_id,
                python_lock=python_lock,
                is_embedded=embed,
            )
            word, entry = _import(options, json=json)
        except RepoTrialError as error:
            word, entry = "refused", {"instance": instance.instance_id, "error": error.to_dict()}
            worst = max(worst, error.exit_code)
            if not json:
                print_error(error, where=instance.instance_id)
        words[word] += 1
        entries.append(entry)
    if json:
        print_json(entries)
    elif len(chosen) > 1:
        listed = ", ".join(f"{number} {word}" for word, number in words.items())
        Screen().line((f"{counted(len(chosen), 'instance')}: {listed}", "bold"))
    if worst is not ExitCode.DONE:
        raise typer.Exit(worst)


def _survey_harbor(path: Path, *, json: bool) -> None:
    """What Harbor's tasks would need to become contracts; none is written, so the exit code is 2."""
    tasks = api.survey_harbor(path)
    if json:
        print_json(tasks)
    else:
        screen = Screen()
        for task in tasks:
            screen.line((f"refused  {task.name}", "bold"), f": {task.refusal}")
            if task.grades:
                screen.line(f"    grades: {', '.join(task.grades)}")
        reasons = Counter(task.reason for task in tasks)
        listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        screen.line((f"{counted(len(tasks), 'task')} refused: {listed}", "bold"))
    raise typer.Exit(ExitCode.BAD_INPUT)


def _import(options: api.SwebenchContract, *, json: bool) -> tuple[str, Any]:
    """Make one contract, unless an earlier call did: so that a call that was stopped can be repeated."""
    name, place = options.instance.instance_id, options.directory
    if (place / "contract.toml").is_file():
        if not json:
            Screen(to_stderr=True).line(
                ("note", "yellow"), f": {name}: skipped, there is a contract in {place}"
            )
        return "skipped", {"instance": name, "skipped": str(place)}
    created = api.create_contract(options)
    if not json:
        show_created(created)
    return "written", created
