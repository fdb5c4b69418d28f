"""Instances of SWE-bench, as its data sets publish them: JSON, read and never evaluated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.escaping import normalize_name

_MAX_BYTES: Final = 512 * 1024 * 1024
_LINE_BREAKS: Final = re.compile(rb"\r?\n")
_SHOWN: Final = 120
_Decoded = TypeVar("_Decoded")


SWEBENCH_INSTANCE_INVALID = ErrorCode(
    "swebench-instance-invalid",
    UsageError,
    "A file holds no SWE-bench instances, or an instance is one that no contract can be made of.",
    hint="give one JSON object, an array or one object per line, with repo, base_commit, patch, "
    "test_patch, problem_statement, FAIL_TO_PASS and PASS_TO_PASS",
)
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
    """What brings the tests; nobody sees them before acceptance."""
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
    """With its brackets; empty where there are none."""

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


def load_swebench_instances(path: Path, wanted: Sequence[str] = ()) -> list[SwebenchInstance]:
    """The instances of a file: one JSON object, an array, or one object per line.

    Args:
        path: The file.
        wanted: Ids of those to take, in any case and with any separators; all unless told.

    Raises:
        SWEBENCH_INSTANCE_INVALID: the file cannot be read, or holds something else.
        SWEBENCH_INSTANCE_UNKNOWN: one that is wanted is not there.
    """
    found: dict[str, SwebenchInstance] = {}
    for instance in _parse(path, _read(path)):
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


def _parse(path: Path, data: bytes) -> list[SwebenchInstance]:
    stripped = data.strip()
    if stripped.startswith(b"["):
        return _decode(f"{path}", stripped, list[SwebenchInstance])
    # Not `splitlines`: some characters inside a JSON text would count as line breaks.
    lines = [(number, line) for number, line in enumerate(_LINE_BREAKS.split(data), start=1) if line.strip()]
    if not lines:
        raise SWEBENCH_INSTANCE_INVALID.error(f"{path}: expected an instance, found nothing")
    if len(lines) > 1 and lines[0][1].strip() == b"{":
        return [_decode(f"{path}", stripped, SwebenchInstance)]  # one object, written over several lines
    return [_decode(f"{path}:{number}", line, SwebenchInstance) for number, line in lines]


def _decode(place: str, data: bytes, kind: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected an instance, found: {str(error)[:_SHOWN]}"
        ) from error
