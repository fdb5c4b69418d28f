"""What a project is taken for: its ecosystem and the command that judges it, stated or guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.authoring._base import CommitTree
from repotrial.authoring._ecosystem import (
    ECOSYSTEMS,
    EcosystemName,
    EcosystemProfile,
    build_test_command,
    guess_ecosystem,
)
from repotrial.authoring._proof._prove import Proof, Unproved
from repotrial.authoring._template import Guess
from repotrial.contract import Problem, ResultFile, TaskKind

CONTRACT_OPTION_INVALID = ErrorCode(
    "contract-option-invalid",
    UsageError,
    "An option of `contract new` has a value that a contract cannot hold.",
    hint="see `repotrial contract new --help` for what each option takes",
)


class NewContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract to be written by its author, on a commit of a repository."""

    source: str
    """A path, a URL or a bundle file."""
    directory: Path
    """Where the contract goes: absent, or empty."""
    title: str
    revision: str = "HEAD"
    """The commit on which the agent starts: a hash, a branch or a tag."""
    id: str | None = None
    kind: TaskKind = "bug-fix"
    ecosystem: EcosystemName | None = None
    """Guessed from the files at the top of the tree unless told."""
    command: str | None = None
    """The command line that judges the change; guessed from the ecosystem unless told."""
    is_embedded: bool = False
    """Put the tree beside the contract, as an archive without history, in place of naming the repository."""
    python_lock: Path | None = None
    """A requirements file with hashes: what the check needs, pytest included."""


class CommitContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract from a merged change: the commit's first parent is where the agent starts."""

    source: str
    directory: Path
    revision: str
    """The change: a hash, a branch or a tag; a merge is compared with its first parent."""
    id: str | None = None
    title: str | None = None
    """The subject of the commit message unless told."""
    kind: TaskKind | None = None
    """Guessed from the commit message unless told."""
    ecosystem: EcosystemName | None = None
    command: str | None = None
    is_embedded: bool = False
    python_lock: Path | None = None
    """A requirements file with hashes: what the check needs, pytest included."""
    test_globs: tuple[str, ...] = ()
    """Which files of the change are tests; the conventions of the common ecosystems unless told."""


Options: TypeAlias = NewContract | CommitContract


class CreatedContract(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and what is left to do."""

    directory: str
    id: str
    title: str
    base_commit: str
    """The commit on which the agent starts."""
    files: tuple[str, ...]
    """Relative to the directory, sorted."""
    guesses: tuple[Guess, ...]
    problems: tuple[Problem, ...]
    """What the author has to look at before the contract can be used."""
    proof: Proof | Unproved | None = None
    """What its tests did; None if they were not run."""
    missing: str | None = None
    """The first thing that keeps it from being locked; None if nothing does."""


_EXIT_CODE = ResultFile(format="exit-code")
_PYTHON_HOOKS = ("**/conftest.py", "**/sitecustomize.py", "**/usercustomize.py", "**/pytest.ini")
_SPECIAL = re.compile(r"[*?\[\]\\]|(?! )\s")
"""What means something in a glob, and blanks other than the space."""
_TEST_DIRECTORIES = ("__tests__", "spec", "t", "test", "tests")


ECOSYSTEM_UNKNOWN = ErrorCode(
    "ecosystem-unknown",
    UsageError,
    "Neither an ecosystem nor a command was given, and the files at the top of the tree tell neither.",
    hint="name the ecosystem, or the command that judges the change",
)


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """An ecosystem, where there is one, and the command that judges."""

    ecosystem: EcosystemProfile | None
    run: str
    results: tuple[ResultFile, ...]
    hooks: tuple[str, ...]
    """Globs of files that test runners execute by themselves."""
    guesses: tuple[Guess, ...]

    @property
    def generated(self) -> tuple[str, ...]:
        """Globs of what the ecosystem's tools leave behind."""
        return () if self.ecosystem is None else self.ecosystem.generated

    @property
    def is_python(self) -> bool:
        return self.ecosystem is not None and self.ecosystem.name == "python"


def survey_project(options: Options, tree: CommitTree, *, test_files: Sequence[str] = ()) -> Project:
    """Look at the top of the tree for what the options leave open.

    Raises:
        ECOSYSTEM_UNKNOWN: there is nothing to go by.
    """
    ecosystem, guesses = _choose_ecosystem(options, tree)
    hooks = _PYTHON_HOOKS if ecosystem is not None and ecosystem.name == "python" else ()
    if options.command is not None:
        return Project(
            ecosystem=ecosystem, run=options.command, results=(_EXIT_CODE,), hooks=hooks, guesses=guesses
        )
    if ecosystem is None:
        known = ", ".join(sorted(marker for each in ECOSYSTEMS for marker in each.markers))
        found = ", ".join(tree.list_top()[:10]) or "no file"
        raise ECOSYSTEM_UNKNOWN.error(f"expected one of {known} at the top of the tree, found {found}")
    texts = {name: text for name in ecosystem.markers if (text := tree.read_text(name)) is not None}
    command = build_test_command(ecosystem, texts, test_files=test_files)
    results = command.results or (_EXIT_CODE,)
    guess = Guess(field="checks[0].run", value=command.run, reason=command.reason)
    return Project(
        ecosystem=ecosystem, run=command.run, results=results, hooks=hooks, guesses=(*guesses, guess)
    )


def list_test_directories(tree: CommitTree) -> list[str]:
    """Globs for the directories at the top that usually hold tests."""
    return [f"{name}/**" for name in tree.list_top_directories() if name in _TEST_DIRECTORIES]


def build_glob(path: str) -> str:
    """A glob that covers one path; what would be special in it stands for any one character."""
    covered = _SPECIAL.sub("?", path)
    # A mark at the start would take back or comment out, and blanks at the ends would be dropped.
    if covered.startswith(("!", "#", " ")):
        covered = "?" + covered[1:]
    return covered[:-1] + "?" if covered.endswith(" ") else covered


def drop_matching(globs: Iterable[str], paths: Sequence[str]) -> tuple[str, ...]:
    """The globs that cover none of `paths`."""
    import pathspec

    kept = []
    for glob in dict.fromkeys(globs):
        spec = pathspec.GitIgnoreSpec.from_lines([glob])
        if not any(spec.match_file(path) for path in paths):
            kept.append(glob)
    return tuple(kept)


def _choose_ecosystem(
    options: Options, tree: CommitTree
) -> tuple[EcosystemProfile | None, tuple[Guess, ...]]:
    if options.ecosystem is not None:
        return next(each for each in ECOSYSTEMS if each.name == options.ecosystem), ()
    found = guess_ecosystem(tree.list_top())
    if found is None:
        return None, ()
    ecosystem, marker = found
    return ecosystem, (Guess(field="ecosystem", value=ecosystem.name, reason=f"there is a {marker}"),)
