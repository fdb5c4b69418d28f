"""Task directories of Harbor, formats 1.0 to 1.4: read, graded, and told why no contract is made of them.

A contract starts from a tree of files that is pinned. A Harbor task starts from an image that a Dockerfile
builds, so each is refused; the reason says what stands in the way first. Grades say what a reader has to know
about the task's verdicts, whatever becomes of it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError

HarborGrade: TypeAlias = Literal[
    "verify-time-download",
    "unpinned-image",
    "oracle-in-agent-image",
    "shared-verifier",
    "model-as-judge",
    "unknowable-demands",
    "network-open",
]
HarborReason: TypeAlias = Literal[
    "unreadable",
    "format-unknown",
    "incomplete",
    "not-linux",
    "several-steps",
    "needs-gpu",
    "several-containers",
    "image-to-be-built",
    "files-in-the-image",
]

_VERSIONS: Final = frozenset({"1.0", "1.1", "1.2", "1.3", "1.4"})
_MAX_BYTES: Final = 4 * 1024 * 1024
_PART_BYTES: Final = 64 * 1024
_DOWNLOAD: Final = re.compile(
    rb"\b(?:curl|wget|uvx|git clone|apt(?:-get)? install|apk add|go get|cargo install"
    rb"|(?:pip3?|uv|npm|yarn|pnpm|gem|conda) (?:pip )?(?:install|add|ci))\b"
)
_MODEL: Final = re.compile(rb"\b(?:openai|anthropic|litellm|google\.generativeai|[A-Z]+_API_KEY)\b")
_FROM: Final = re.compile(rb"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.MULTILINE | re.IGNORECASE)
_ORACLE: Final = re.compile(
    rb"^\s*(?:COPY|ADD)\s+.*(?:\btests?/|\bsolution\b|solve\.sh|test_outputs\.py|oracle)", re.MULTILINE
)
_ORACLE_NAMES: Final = frozenset({"solution", "solve.sh", "test_outputs.py", "oracle.py", "expected_output"})
_COMPOSE: Final = frozenset({"docker-compose.yaml", "docker-compose.yml"})
_DEMANDED: Final = re.compile(rb"""["'](/[\w./-]*?([\w-]+\.[a-z0-9]{1,5}))["']""")


HARBOR_TASKS_MISSING = ErrorCode(
    "harbor-tasks-missing",
    UsageError,
    "A directory was named that holds no task of Harbor.",
    hint="name a directory with task.toml and instruction.md, or one that has such directories below it",
)


class HarborTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task directory."""

    name: str
    directory: str
    schema_version: str
    grades: tuple[HarborGrade, ...]
    """What a reader has to know about its verdicts."""
    reason: HarborReason
    """Why no contract was made of it, in a word."""
    refusal: str
    """The same in a sentence."""


def survey_harbor(path: Path) -> list[HarborTask]:
    """Every task at or below a directory, by its path; nothing of a task is executed.

    Raises:
        HARBOR_TASKS_MISSING: there is none.
    """
    found = [_read_task(home, path) for home in sorted(_iter_homes(path))]
    if not found:
        look = "a task of Terminal-Bench 1 or of SWE-bench" if any(path.glob("*/task.yaml")) else "none"
        raise HARBOR_TASKS_MISSING.error(f"{path}: expected task.toml, found {look}")
    return found


def _iter_homes(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        return
    for directory, names, files in os.walk(path):
        if "task.toml" in files:
            names.clear()  # a task has no tasks inside
            yield Path(directory)


def _read_task(home: Path, top: Path) -> HarborTask:
    name = str(home.relative_to(top)) if home != top else home.name
    try:
        document = tomllib.loads(_read(f"{home}/task.toml").decode("utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        return _refuse(name, home, "", (), "unreadable", f"task.toml: {str(error)[:200] or 'cannot be read'}")
    version = str(document.get("schema_version", document.get("version", "1.0")))
    instruction = _read(f"{home}/instruction.md")
    beside = _list_names(f"{home}/environment")
    dockerfile = _read(f"{home}/environment/Dockerfile") if "Dockerfile" in beside else b""
    script = _read(f"{home}/tests/test.sh")
    tests = _read_tests(f"{home}/tests")
    environment = _table(document, "environment")
    grades = tuple(
        _iter_grades(
            document,
            beside=beside,
            dockerfile=dockerfile,
            script=script,
            tests=tests,
            instruction=instruction,
        )
    )
    reason, refusal = _find_refusal(
        document,
        missing=_find_missing(home, {"instruction.md": instruction, "tests/test.sh": script}),
        beside=beside,
        version=version,
        has_docker=bool(dockerfile),
        image=environment.get("docker_image"),
    )
    return _refuse(name, home, version, grades, reason, refusal)


def _refuse(
    name: str,
    home: Path,
    version: str,
    grades: tuple[HarborGrade, ...],
    reason: HarborReason,
    refusal: str,
) -> HarborTask:
    return HarborTask(
        name=name, directory=str(home), schema_version=version, grades=grades, reason=reason, refusal=refusal
    )


def _find_refusal(
    document: Mapping[str, Any],
    *,
    missing: str | None,
    beside: AbstractSet[str],
    version: str,
    has_docker: bool,
    image: object,
) -> tuple[HarborReason, str]:
    environment = _table(document, "environment")
    if version not in _VERSIONS:
        return "format-unknown", f"schema_version: expected 1.0 to 1.4, found {version[:40]!r}"
    if missing is not None and "steps" not in document:
        return "incomplete", f"{missing}: expected a file, found none"
    if environment.get("os", "linux") != "linux":
        return "not-linux", f"environment.os: expected linux, found {str(environment['os'])[:40]!r}"
    if "steps" in document:
        return "several-steps", "steps: expected one instruction, found several; a contract has one statement"
    if environment.get("gpus") or environment.get("tpu"):
        return "needs-gpu", "environment.gpus: expected none, found some; sandboxes have no such devices"
    if _COMPOSE & beside:
        return "several-containers", "environment: expected one container, found a compose file"
    if has_docker:
        return (
            "image-to-be-built",
            "environment/Dockerfile: expected a pinned tree of files, found an image to be built first",
        )
    return (
        "files-in-the-image",
        f"environment.docker_image: expected a pinned tree of files, found them in {str(image)[:100]!r}",
    )


def _iter_grades(
    document: Mapping[str, Any],
    *,
    beside: AbstractSet[str],
    dockerfile: bytes,
    script: bytes,
    tests: bytes,
    instruction: bytes,
) -> Iterator[HarborGrade]:
    environment, verifier = _table(document, "environment"), _table(document, "verifier")
    if _DOWNLOAD.search(script):
        yield "verify-time-download"
    if _is_unpinned(dockerfile, environment.get("docker_image")):
        yield "unpinned-image"
    if _ORACLE.search(dockerfile) or _ORACLE_NAMES & beside:
        yield "oracle-in-agent-image"
    if verifier.get("environment_mode", "shared") != "separate":
        yield "shared-verifier"
    keys = "".join(map(str, _table(verifier, "env")))
    if _MODEL.search(tests) or _MODEL.search(script) or "_API_KEY" in keys:
        yield "model-as-judge"
    known = instruction + dockerfile
    if any(match[2] not in known for match in _DEMANDED.finditer(tests)):
        yield "unknowable-demands"
    modes = {_table(document, name).get("network_mode") for name in ("agent", "environment")}
    if "public" in modes or (not modes - {None} and environment.get("allow_internet", True)):
        yield "network-open"


def _find_missing(home: Path, read: Mapping[str, bytes]) -> str | None:
    """The first of these files that is not there; what was read need not be looked for."""
    return next((name for name, data in read.items() if not data and not (home / name).is_file()), None)


def _is_unpinned(dockerfile: bytes, image: object) -> bool:
    stages = set()
    for match in _FROM.finditer(dockerfile):
        name = match[1].lower()
        if name not in stages and name != b"scratch" and b"@sha256:" not in name:
            return True
        stages.add((match[2] or b"").lower())
    return isinstance(image, str) and bool(image) and "@sha256:" not in image


def _read_tests(directory: str) -> bytes:
    """The tests in Python, one after the other."""
    names = sorted(name for name in _list_names(directory) if name.endswith(".py"))
    return b"\n".join(_read(f"{directory}/{name}") for name in names[:20])


def _list_names(directory: str) -> set[str]:
    try:
        with os.scandir(directory) as entries:
            return {entry.name for entry in entries}
    except OSError:
        return set()


def _read(path: str) -> bytes:
    """The file, or nothing where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    parts: list[bytes] = []
    left = _MAX_BYTES
    try:
        while left > 0 and (part := os.read(handle, min(left, _PART_BYTES))):
            parts.append(part)
            left -= len(part)
            if len(part) < _PART_BYTES:
                break  # a file of ordinary size: one call
    except OSError:
        return b""
    finally:
        os.close(handle)
    return b"".join(parts)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
