"""Instances of SWE-bench, as its data sets publish them: JSON, read and never evaluated."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from repotrial._core.digest import name_blob
from repotrial._core.errors import AgentError, ContractError, ErrorCode, UsageError
from repotrial._core.escaping import normalize_name
from repotrial.authoring._base import CommitTree, open_tree
from repotrial.authoring._split import CHANGE_WITHOUT_TESTS, verify_hidden
from repotrial.authoring._task_rows import SWEBENCH_INSTANCE_INVALID, iter_task_directories, normalize_row
from repotrial.authoring._text import clean_line
from repotrial.change import PATCH_UNREADABLE, read_change, read_sections
from repotrial.source import PATCH_REFUSED, ChangeStatus, CommitChange, apply_patch

_MAX_BYTES: Final = 512 * 1024 * 1024
_LINE_BREAKS: Final = re.compile(rb"\r?\n")
_SHOWN: Final = 120
_Decoded = TypeVar("_Decoded")


SWEBENCH_INSTANCE_UNKNOWN = ErrorCode(
    "swebench-instance-unknown",
    UsageError,
    "An instance was asked for that the file does not hold.",
    hint="name an instance_id of the file",
)


class SwebenchInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One task; keys that are of no use here are passed over."""

    instance_id: str
    """Such as `owner__repo-12`."""
    repo: str
    """`owner/repo`, for people: the files come from a repository that the author names."""
    base_commit: str
    """The commit on which the agent starts."""
    patch: str
    """The gold patch."""
    test_patch: str
    """What brings the tests; they are not shown before acceptance."""
    problem_statement: str
    """The issue's text."""
    fail_to_pass: str | tuple[str, ...] = msgspec.field(name="FAIL_TO_PASS")
    """Node ids of pytest, as a list or as JSON text of one."""
    pass_to_pass: str | tuple[str, ...] = msgspec.field(name="PASS_TO_PASS", default=())
    """The same, for tests that pass before, too."""
    version: str | None = None
    """The project's release, for people."""
    environment_setup_commit: str | None = None
    """Where the data set's authors made the environment from, for people."""
    images: dict[str, str] = {}
    """Images that the row names, by column."""

    @property
    def contract_id(self) -> str:
        """The id of the contract that is made of it."""
        return normalize_name(self.instance_id)

    @property
    def patch_bytes(self) -> bytes:
        """The gold patch, with the newline that some copies of the data set lost."""
        return _encode(self.patch)

    @property
    def test_patch_bytes(self) -> bytes:
        """The tests' patch, likewise."""
        return _encode(self.test_patch)

    def list_failing(self) -> tuple[str, ...]:
        """Ids that must turn."""
        return self._read("FAIL_TO_PASS", self.fail_to_pass)

    def list_passing(self) -> tuple[str, ...]:
        """Ids that must stay."""
        return self._read("PASS_TO_PASS", self.pass_to_pass)

    def _read(self, field: str, value: str | tuple[str, ...]) -> tuple[str, ...]:
        if not isinstance(value, str):
            return value
        try:
            return msgspec.json.decode(value, type=tuple[str, ...])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{self.instance_id}: {field}: expected a JSON list of test ids, found: {error}"
            ) from error


def _encode(patch: str) -> bytes:
    return (patch if patch.endswith("\n") or not patch else f"{patch}\n").encode("utf-8", "surrogatepass")


class NodeId(msgspec.Struct, frozen=True, kw_only=True):
    """A test as pytest names it."""

    path: str
    classes: tuple[str, ...]
    function: str
    parameters: str
    """With its brackets; empty if there are none."""

    @property
    def junit_id(self) -> str:
        """The same test as pytest's JUnit files name it."""
        module = re.sub(r"\.py$", "", self.path).replace("/", ".")
        return f"{'.'.join((module, *self.classes))}::{self.function}{self.parameters}"

    @property
    def is_cut(self) -> bool:
        """Whether the data set lost a part of it: some of its logs end an id at the first blank."""
        return bool(self.parameters) and not self.parameters.endswith("]")


def parse_node_id(text: str) -> NodeId | None:
    """The parts of `tests/test_a.py::TestX::test_y[p]`; none where it is not of that form."""
    # Parameters may hold anything, even what separates the parts.
    head, bracket, rest = text.partition("[")
    path, *names = head.split("::")
    if not path.endswith(".py") or path.startswith("/") or not names or not all(names):
        return None
    return NodeId(path=path, classes=tuple(names[:-1]), function=names[-1], parameters=f"{bracket}{rest}")


_DJANGO: Final = re.compile(r"(?P<test>\w+) \((?P<place>\w+(?:\.\w+)+)\)")
_SYMPY: Final = re.compile(r"test_\w+")


def parse_django_id(text: str) -> NodeId | None:
    """`test_x (app.tests.Class)` as its runner prints it; later releases repeat the test at the end."""
    match = _DJANGO.fullmatch(text)
    if match is None:
        return None
    *modules, name = match["place"].removesuffix(f".{match['test']}").split(".")
    if not modules:
        return None
    path = f"tests/{'/'.join(modules)}.py"
    return NodeId(path=path, classes=(name,), function=match["test"], parameters="")


def find_sympy_nodes(text: str, sources: Mapping[str, str]) -> list[NodeId]:
    """A bare function name, in each of the files that define it; none where it is not of that form."""
    if not _SYMPY.fullmatch(text):
        return []
    defined = re.compile(rf"^def {text}\(", re.MULTILINE)
    return [
        NodeId(path=path, classes=(), function=text, parameters="")
        for path, source in sources.items()
        if defined.search(source)
    ]


def load_swebench_instances(path: Path, wanted: Sequence[str] = ()) -> list[SwebenchInstance]:
    """The instances of a file (one JSON object, an array, one object per line) or of task directories.

    Args:
        path: The file, or a directory with `task.yaml` files below it.
        wanted: Ids of those to take, in any case and with any separators; all unless told.

    Raises:
        SWEBENCH_INSTANCE_INVALID: the file cannot be read, or holds something else.
        SWEBENCH_INSTANCE_UNKNOWN: one that is wanted is not there.
    """
    found: dict[str, SwebenchInstance] = {}
    for instance in _parse(path):
        if not instance.contract_id:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{path}: expected an instance_id with letters or digits, found {instance.instance_id!r}"
            )
        if instance.contract_id in found:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{path}: expected each instance once, found {instance.instance_id} twice"
            )
        found[instance.contract_id] = instance
    if not wanted:
        return list(found.values())
    if unknown := [name for name in wanted if normalize_name(name) not in found]:
        raise SWEBENCH_INSTANCE_UNKNOWN.error(
            f"{path}: expected {unknown[0]}, found {len(found)} other instances"
        )
    return [found[normalize_name(name)] for name in wanted]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{path}: expected a file of instances, found: {error.strerror}"
        ) from error
    if len(data) > _MAX_BYTES:
        raise SWEBENCH_INSTANCE_INVALID.error(f"{path}: expected at most {_MAX_BYTES} bytes, found more")
    return data


def _parse(path: Path) -> Iterator[SwebenchInstance]:
    rows = iter_task_directories(path) if path.is_dir() else _iter_rows(path, _read(path))
    for place, row in rows:
        try:
            yield msgspec.convert(normalize_row(row, place), SwebenchInstance)
        except msgspec.ValidationError as error:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{place}: expected an instance, found: {str(error)[:_SHOWN]}"
            ) from error


def _iter_rows(path: Path, data: bytes) -> Iterator[tuple[str, object]]:
    stripped = data.strip()
    if stripped.startswith(b"["):
        for number, row in enumerate(_decode(f"{path}", stripped, list[object])):
            yield f"{path}[{number}]", row
        return
    # Not `splitlines`: some characters inside a JSON text would count as line breaks.
    lines = [(number, line) for number, line in enumerate(_LINE_BREAKS.split(data), start=1) if line.strip()]
    if not lines:
        raise SWEBENCH_INSTANCE_INVALID.error(f"{path}: expected an instance, found nothing")
    if len(lines) > 1 and lines[0][1].strip() == b"{":
        yield f"{path}", _decode(f"{path}", stripped, object)  # one object, written over several lines
        return
    for number, line in lines:
        yield f"{path}:{number}", _decode(f"{path}:{number}", line, object)


def _decode(place: str, data: bytes, kind: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected an instance, found: {str(error)[:_SHOWN]}"
        ) from error


_ABSENT = "000000"
_PLAIN = ("100644", "100755")


class InstanceTrees(msgspec.Struct, frozen=True, kw_only=True):
    """An instance's base, with its tests and with its gold patch; and what the two patches change."""

    base: CommitTree
    tested: CommitTree
    """With the tests of the instance."""
    fixed: CommitTree
    """With its gold patch."""
    hidden: tuple[CommitChange, ...]
    """What the tests change; a rename is a deletion and an addition."""
    reference: tuple[CommitChange, ...]
    """What the gold patch changes."""
    patch: bytes
    """The gold patch, with a mode for every file."""

    @property
    def laid(self) -> tuple[str, ...]:
        """Files that the tests bring."""
        return tuple(change.path for change in self.hidden if change.status is not ChangeStatus.DELETED)

    @property
    def removed(self) -> tuple[str, ...]:
        """Files that must be gone before those are laid."""
        replaced = (ChangeStatus.DELETED, ChangeStatus.TYPE_CHANGED)
        return tuple(change.path for change in self.hidden if change.status in replaced)


@contextlib.contextmanager
def open_instance_trees(instance: SwebenchInstance, source: str, commit: str) -> Iterator[InstanceTrees]:
    """The trees of an instance, in temporary directories.

    Raises:
        SWEBENCH_INSTANCE_INVALID: a patch does not apply, is empty or cannot be read, or both touch one file.
        CHANGE_WITHOUT_TESTS: the tests bring no file.
        TEST_FILE_UNSUPPORTED: a test file cannot lie beside a contract.
    """
    with (
        open_tree(source, commit) as base,
        open_tree(source, commit) as tested,
        open_tree(source, commit) as fixed,
    ):
        _, hidden = _apply(instance, "test_patch", instance.test_patch_bytes, base=base, tree=tested)
        patch, reference = _apply(instance, "patch", instance.patch_bytes, base=base, tree=fixed)
        _verify_apart(instance, hidden, reference)
        verify_hidden(hidden, reference)
        trees = InstanceTrees(
            base=base, tested=tested, fixed=fixed, hidden=hidden, reference=reference, patch=patch
        )
        if not trees.laid:
            raise CHANGE_WITHOUT_TESTS.error(
                f"{instance.instance_id}: test_patch: expected an added or modified file, found none"
            )
        yield trees


def _apply(
    instance: SwebenchInstance, field: str, patch: bytes, *, base: CommitTree, tree: CommitTree
) -> tuple[bytes, tuple[CommitChange, ...]]:
    """The patch as judges read it, and what it changes."""
    place = f"{instance.instance_id}: {field}"
    if not patch.strip():
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected a patch, found nothing",
            hint="give the patch as the data set has it, or leave the instance out",
        )
    try:
        _verify_plain(patch, base)
        apply_patch(patch, tree=tree.root)
        patch = _state_modes(patch, base, tree)
        view = read_change(patch)
    except (AgentError, ContractError) as error:
        if error.code not in {PATCH_UNREADABLE, PATCH_REFUSED}:
            raise
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected a patch that applies to {base.commit}, found: {error.message}",
            hint=f"give {field} as the data set has it, for base_commit of {clean_line(instance.repo)}",
        ) from error
    paths = sorted({path for file in view.files for path in file.touched_paths})
    changes = (_compare(path, base, tree) for path in paths)
    return patch, tuple(change for change in changes if change is not None)


def _verify_plain(patch: bytes, base: CommitTree) -> None:
    """Git applies a change without a mode to whatever is there, be it a link."""
    for section in read_sections(patch, needs_modes=False):
        old = section.file.old_path or section.file.path
        if section.file.is_mode_missing and _find_mode(base.root / old) not in _PLAIN:
            raise PATCH_UNREADABLE.error(
                f"expected a plain file {old!r}, since its mode is not stated, found none"
            )


def _state_modes(patch: bytes, base: CommitTree, tree: CommitTree) -> bytes:
    """The same patch with the line that the data set leaves out: a changed file keeps its mode."""
    parts, end = [], 0
    for file, start in ((section.file, section.start) for section in read_sections(patch, needs_modes=False)):
        if file.is_mode_missing and not file.is_binary:
            old, new = base.root / (file.old_path or file.path), tree.root / file.path
            body = patch.index(b"\n--- ", start) + 1
            names = f"{name_blob(old.read_bytes())}..{name_blob(new.read_bytes())}"
            parts += [patch[end:body], f"index {names} {_find_mode(old)}\n".encode()]
            end = body
    return b"".join([*parts, patch[end:]])


def _compare(path: str, base: CommitTree, tree: CommitTree) -> CommitChange | None:
    """What happened to a path, by what lies there before and after; none where it never was."""
    old, new = _find_mode(base.root / path), _find_mode(tree.root / path)
    if old == new == _ABSENT:
        return None
    if old == _ABSENT:
        status = ChangeStatus.ADDED
    elif new == _ABSENT:
        status = ChangeStatus.DELETED
    else:
        status = ChangeStatus.MODIFIED if old[:3] == new[:3] else ChangeStatus.TYPE_CHANGED
    return CommitChange(path=path, status=status, old_mode=old, new_mode=new)


def _find_mode(path: Path) -> str:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    if stat.S_ISLNK(mode):
        return "120000"
    if not stat.S_ISREG(mode):
        return _ABSENT  # a directory in place of a file: the file is gone
    return "100755" if mode & stat.S_IXUSR else "100644"


def _verify_apart(
    instance: SwebenchInstance, hidden: Sequence[CommitChange], reference: Sequence[CommitChange]
) -> None:
    """Files of the tests are laid over the candidate's: a change of them would never be judged."""
    both = sorted({change.path for change in hidden} & {change.path for change in reference})
    if both:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{instance.instance_id}: expected patch and test_patch to touch different files, "
            f"found {both[0]!r} in both",
            hint="keep each file in one of them: those of test_patch are laid over a candidate's change",
        )
