"""What all new contracts have in common: names, defaults, files on disk, and a look at the result."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from repotrial._core.digest import digest_file
from repotrial._core.errors import ContractError, ErrorCode, MachineError, UsageError
from repotrial._core.files import sync_directory
from repotrial.authoring._base import (
    ARCHIVE_FILE,
    CommitTree,
    build_git_repository,
    embed_tree,
    guess_name,
    is_local_source,
)
from repotrial.authoring._project import CONTRACT_OPTION_INVALID, CreatedContract, Options, Project
from repotrial.authoring._python_lock import LOCK_HINT
from repotrial.authoring._template import ContractDraft, Guess, render_contract
from repotrial.authoring._text import build_slug, clean_line, shorten
from repotrial.contract import (
    CONTRACT_FILE,
    STATEMENT_FILE,
    ArchiveRepository,
    Check,
    GitRepository,
    Inventory,
    Overlay,
    Problem,
    load_contract,
)
from repotrial.environment import parse_requirements

CONTRACT_DIRECTORY_TAKEN = ErrorCode(
    "contract-directory-taken",
    UsageError,
    "A new contract would be written over something: its directory is not empty, or is no directory.",
    hint="choose a directory that does not exist yet, or an empty one",
)
CONTRACT_DIRECTORY_UNWRITABLE = ErrorCode(
    "contract-directory-unwritable",
    MachineError,
    "The directory of a new contract cannot be created or written.",
    hint="check the permissions and the free space of the parent directory",
)


@contextlib.contextmanager
def stage_directory(target: Path) -> Iterator[Path]:
    """A directory to build in; it becomes `target` when the block ends well and vanishes otherwise.

    Raises:
        CONTRACT_DIRECTORY_TAKEN: there is something at `target`, before or after the work.
        CONTRACT_DIRECTORY_UNWRITABLE: the file system refuses.
    """
    _verify_free(target)
    staging = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}"
    try:
        staging.mkdir(parents=True)
        yield staging
        _rename(staging, target)
    except OSError as error:
        raise CONTRACT_DIRECTORY_UNWRITABLE.error(
            f"expected to write the contract at {target}, found: {error}"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _verify_free(target: Path) -> None:
    try:
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise CONTRACT_DIRECTORY_TAKEN.error(f"expected no file at {target}, found one")
        if target.is_dir() and any(target.iterdir()):
            raise CONTRACT_DIRECTORY_TAKEN.error(
                f"expected {target} to be absent or empty, found files in it"
            )
    except OSError as error:
        raise CONTRACT_DIRECTORY_UNWRITABLE.error(f"expected to read {target}, found: {error}") from error


def _rename(staging: Path, target: Path) -> None:
    try:
        # Over an empty directory this is one step; anything that came there meanwhile makes it fail.
        os.rename(staging, target)  # noqa: PTH104 - `Path.replace` would promise more than it does for directories
    except (FileExistsError, NotADirectoryError) as error:
        raise CONTRACT_DIRECTORY_TAKEN.error(
            f"expected {target} to stay empty, found that something was put there meanwhile"
        ) from error
    except OSError as error:
        if target.exists():
            raise CONTRACT_DIRECTORY_TAKEN.error(
                f"expected {target} to stay empty, found that something was put there meanwhile"
            ) from error
        raise
    sync_directory(target.parent)


CHECK_ID = "tests"
LOCK_FILE = "requirements.lock"
REFERENCE_FILE = "reference.patch"
INVENTORY_FILE = f"checks/{CHECK_ID}.json"
_TIMEOUT_SECONDS = 900
_LEAST_TIMEOUT_SECONDS = 300
_MAX_ID = 40
"""It heads columns of tables, and more words of a commit's subject would only tell more of the solution."""
_MAX_TITLE = 200

STATEMENT_IS_FORM = Problem(
    code="draft-statement-form",
    severity="warning",
    file=STATEMENT_FILE,
    message="expected a statement in the author's words, found the form to fill",
    hint="write what is expected, what is observed, and how to see it",
)


def build_title(title: str) -> str:
    """A title that a contract can hold.

    Raises:
        CONTRACT_OPTION_INVALID: nothing is left of it.
    """
    cleaned = shorten(clean_line(title), _MAX_TITLE)
    if not cleaned:
        raise CONTRACT_OPTION_INVALID.error(f"expected a title with visible characters, found {title!r}")
    return cleaned


def build_id(options: Options, title: str) -> str:
    """The id that was given, or one made of the project's name and the title.

    Raises:
        CONTRACT_OPTION_INVALID: the given id is none.
    """
    if options.id is None:
        return build_slug(f"{guess_name(options.source)} {title}", limit=_MAX_ID) or "contract"
    try:
        # A check's id has the type of a contract's; the type itself is private to `contract`.
        return msgspec.convert({"id": options.id, "gate": "acceptance"}, Check).id
    except msgspec.ValidationError as error:
        raise CONTRACT_OPTION_INVALID.error(
            f"expected an id of lower-case letters and digits joined by single '-', '_' or '.', "
            f"found {options.id!r}"
        ) from error


def build_repository(
    options: Options, tree: CommitTree, directory: Path
) -> GitRepository | ArchiveRepository:
    """The repository as the contract names it; where asked, its tree is put into `directory`."""
    if not options.is_embedded:
        return build_git_repository(options.source, tree.commit)
    repository = embed_tree(tree, directory)
    return msgspec.structs.replace(repository, digest=digest_file(directory / ARCHIVE_FILE))


def check_source(options: Options) -> list[Problem]:
    """A path of this machine means nothing on another one."""
    if options.is_embedded or not is_local_source(options.source):
        return []
    return [
        Problem(
            code="draft-source-local",
            severity="warning",
            file=CONTRACT_FILE,
            field="repository.source",
            message="expected a repository that other machines can reach, found one on this machine",
            hint="embed the tree, or name the repository's public URL",
        )
    ]


def check_packages(options: Options, project: Project) -> list[Problem]:
    """Whether anything says where the test runner comes from: in a sandbox, it is nowhere by itself."""
    if options.python_lock is not None or not project.is_python or "pytest" not in project.run:
        return []
    return [
        Problem(
            code="draft-packages-unstated",
            severity="warning",
            file=CONTRACT_FILE,
            field="environment.python",
            message="expected the packages that the check needs, pytest among them, found none named",
            hint=f'{LOCK_HINT}; then `python = {{ lock = "{LOCK_FILE}" }}` under [environment], '
            "or `--python-lock FILE` with this command",
        )
    ]


def check_inventory(project: Project, inventory: Inventory | None) -> list[Problem]:
    """Whether a check that reports tests says which of them must pass; lint refuses one that does not."""
    if inventory is not None or all(result.format == "exit-code" for result in project.results):
        return []
    negative = "" if project.is_python else ", and add a `negative` suite, which no tool makes for you here"
    return [
        Problem(
            code="draft-inventory-missing",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].inventory",
            message="expected the ids of the tests that must pass, found none, since nothing was run",
            hint=f"run the tests on the merged change, write their ids into {INVENTORY_FILE}, name it with "
            f'`inventory = "{INVENTORY_FILE}"`{negative}: see docs/how-to/contract-from-a-commit.md',
        )
    ]


def copy_python_lock(origin: Path | None, directory: Path) -> str | None:
    """Put a requirements file beside the contract; its name there, if there is one.

    Raises:
        CONTRACT_OPTION_INVALID: it cannot be read, or does not pin every package with a hash.
    """
    if origin is None:
        return None
    try:
        data = origin.read_bytes()
        parse_requirements(data, str(origin))
    except OSError as error:
        message = f"{origin}: expected a requirements file with hashes, found: {error.strerror}"
        raise CONTRACT_OPTION_INVALID.error(message, hint=LOCK_HINT) from error
    except ContractError as error:  # `package-lock-invalid`, `package-hash-missing`
        raise CONTRACT_OPTION_INVALID.error(error.message, hint=LOCK_HINT) from error
    (directory / LOCK_FILE).write_bytes(data)
    return LOCK_FILE


def build_check(project: Project, *, inventory: Inventory | None, overlays: Sequence[Overlay]) -> Check:
    """The one check of a draft."""
    return Check(
        id=CHECK_ID,
        gate="acceptance",
        layer="unit",
        run=project.run,
        results=project.results,
        files=tuple(overlays),
        inventory=None if inventory is None else INVENTORY_FILE,
        baseline="fail",
        timeout_seconds=_TIMEOUT_SECONDS,
    )


def choose_timeout(wall_us: int) -> int:
    """A ceiling for a check whose longest execution took so long: room for twins and for busy machines."""
    return max(_LEAST_TIMEOUT_SECONDS, 10 * (wall_us // 1_000_000 + 1))


def write_inventory(directory: Path, inventory: Inventory | None) -> None:
    if inventory is not None:
        path = directory / INVENTORY_FILE
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(inventory), indent=2) + b"\n")


def copy_file(origin: Path, copy: Path) -> None:
    """A file of a tree beside the contract, executable where it was."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, copy, follow_symlinks=False)
    copy.chmod(0o755 if origin.stat().st_mode & stat.S_IXUSR else 0o644)


def build_guesses(project: Project, *, protected: Sequence[str]) -> list[Guess]:
    """What every draft guesses about the environment and the policy."""
    guesses = [
        *project.guesses,
        Guess(
            field="checks[0].timeout_seconds",
            value=str(_TIMEOUT_SECONDS),
            reason="several times what a check usually needs; nothing was run",
        ),
        Guess(field="environment.image", value="host", reason="this machine's own tools"),
        Guess(
            field="policy.protected", value=", ".join(protected), reason="tests, and files that steer them"
        ),
    ]
    if (ecosystem := project.ecosystem) is not None:
        values = {
            "environment.tools": [f"{name}{constraint}" for name, constraint in ecosystem.tools.items()],
            "environment.variables": [f"{name}={value}" for name, value in ecosystem.variables.items()],
            "policy.generated": ecosystem.generated,
            "policy.dependencies.manifests": ecosystem.manifests,
        }
        usual = f"usual for {ecosystem.name}"
        guesses += [
            Guess(field=field, value=", ".join(value), reason=usual) for field, value in values.items()
        ]
    return [guess for guess in guesses if guess.value]


def finish(
    staging: Path, target: Path, *, draft: ContractDraft, statement: str, problems: Sequence[Problem]
) -> CreatedContract:
    """Write the two files that every contract has, and load the whole, as its first reader.

    Raises:
        CONTRACT_INVALID: the directory does not load.
    """
    (staging / CONTRACT_FILE).write_text(render_contract(draft), encoding="utf-8", newline="\n")
    (staging / STATEMENT_FILE).write_text(statement, encoding="utf-8", newline="\n")
    load_contract(staging)
    return CreatedContract(
        directory=str(target),
        id=draft.id,
        title=draft.title,
        base_commit=draft.base_commit,
        files=tuple(sorted(_list_files(staging))),
        guesses=draft.guesses,
        problems=tuple(problems),
    )


def _list_files(directory: Path) -> list[str]:
    return [
        Path(place, name).relative_to(directory).as_posix()
        for place, _, names in os.walk(directory)
        for name in names
    ]
