"""Rows and directories of SWE-bench and its relatives, brought into one form: read, never evaluated.

- SWE-bench rows, with lists or JSON texts; SWE-bench Pro's, whose lists are Python literals.
- Task directories of SWE-bench 5: `task.yaml`, `tests.json`, `problem_statement.md` and two patches.
- Multi-SWE-bench: tests that were skipped or absent before count as turning.
- SWE-rebench V2: what the tests may rely on (`interface`) becomes part of the statement.

What is none of them is refused with a word about what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.python_source import parse_literal

TASK_FILE: Final = "task.yaml"
_IMAGE_COLUMNS: Final = ("image", "image_name", "docker_image", "dockerhub_tag")
_TURNING: Final = ("f2p_tests", "s2p_tests", "n2p_tests")
_FLAT: Final = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*):(?:[ \t]+(?P<value>.*?))?[ \t]*")
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_MAX_LITERAL: Final = 16 * 1024 * 1024


SWEBENCH_INSTANCE_INVALID = ErrorCode(
    "swebench-instance-invalid",
    UsageError,
    "A file holds no SWE-bench instances, or an instance is one that no contract can be made of.",
    hint="give one JSON object, an array or one object per line, with repo, base_commit, patch, "
    "test_patch, problem_statement, FAIL_TO_PASS and PASS_TO_PASS; or a directory with task.yaml files",
)

_LOOKS: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (frozenset({"model_patch"}), "a prediction: use it as an agent, `--agent predictions:FILE`"),
    (frozenset({"fix_patch", "number"}), "a prediction of Multi-SWE-bench, or a row without its tests"),
    (frozenset({"resolved_ids"}), "a report of results, not tasks"),
    (frozenset({"trajectory_format"}), "a trajectory of an agent: `repotrial run` takes no such file"),
    (
        frozenset({"image_name", "FAIL_TO_PASS", "patch"}),
        "a SWE-smith row: its `patch` brings the bug, so it has no test_patch",
    ),
    (
        frozenset({"instruction", "parser_name"}),
        "a task of Terminal-Bench 1: convert it with `harbor task migrate`",
    ),
    (frozenset({"task_name", "verifier_result"}), "a result of Harbor, not a task"),
    (frozenset({"steps", "schema_version"}), "a trajectory (ATIF), not a task"),
    (frozenset({"prompt", "canonical_solution"}), "a row of a code-completion set, which has no repository"),
)


def normalize_row(row: object, place: str) -> dict[str, Any]:
    """One row in the form of SWE-bench, with the names of its image columns kept in `image_columns`.

    Args:
        row: What the file holds.
        place: The file and line, for messages.

    Raises:
        SWEBENCH_INSTANCE_INVALID: it is not a task that is known here; the message says what it looks like.
    """
    if not isinstance(row, dict):
        raise SWEBENCH_INSTANCE_INVALID.error(f"{place}: expected an instance, found no JSON object")
    if {"org", "number", "fix_patch", "base"} <= row.keys():
        row = _from_multi(row, place)
    found = dict(row)
    for name in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        if name not in found and name.lower() in found:
            found[name] = _read_literal(found[name.lower()])
    missing = [name for name in ("repo", "base_commit", "patch", "test_patch") if name not in found]
    if missing:
        look = next((text for keys, text in _LOOKS if keys <= row.keys()), "")
        shown = look or f"an object with {', '.join(sorted(map(str, row))[:8]) or 'no keys'}"
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected an instance with {', '.join(missing)}, found {shown}"
        )
    interface = found.get("interface")
    if isinstance(interface, str) and interface.strip() and isinstance(found.get("problem_statement"), str):
        found["problem_statement"] = (
            f"{found['problem_statement'].rstrip()}\n\n## Interface\n\n{interface.strip()}\n"
        )
    found["images"] = {
        name: found[name] for name in _IMAGE_COLUMNS if isinstance(found.get(name), str) and found[name]
    }
    for name in ("version", "environment_setup_commit"):
        if found.get(name) is not None and not isinstance(found[name], str):
            found[name] = str(found[name])
    return found


def _from_multi(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A row of Multi-SWE-bench: `s2p` and `n2p` did not pass before either, so they turn."""
    base = row["base"]
    lists = {name: row.get(name) or {} for name in (*_TURNING, "p2p_tests")}
    if not isinstance(base, dict) or not all(isinstance(tests, dict) for tests in lists.values()):
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected a row of Multi-SWE-bench with base and tests by name, found others"
        )
    issues = row.get("resolved_issues")
    texts = [issue for issue in issues if isinstance(issue, dict)] if isinstance(issues, list) else []
    statement = "\n\n".join(
        f"{issue.get('title') or ''}\n\n{issue.get('body') or ''}".strip() for issue in texts
    )
    return {
        "instance_id": f"{row['org']}__{row.get('repo')}-{row['number']}",
        "repo": f"{row['org']}/{row.get('repo')}",
        "base_commit": base.get("sha"),
        "patch": row["fix_patch"],
        "test_patch": row.get("test_patch"),
        "problem_statement": statement or f"{row.get('title') or ''}\n\n{row.get('body') or ''}".strip(),
        "FAIL_TO_PASS": [test for name in _TURNING for test in lists[name]],
        "PASS_TO_PASS": list(lists["p2p_tests"]),
    }


def _read_literal(value: object) -> object:
    """A list as SWE-bench Pro writes it: the text of a Python list, read as a literal and not evaluated."""
    if not isinstance(value, str) or len(value) > _MAX_LITERAL:
        return value
    try:
        found = parse_literal(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return list(map(str, found)) if isinstance(found, list | tuple) else value


def iter_task_directories(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every task below a directory, as a row, with its place.

    Raises:
        SWEBENCH_INSTANCE_INVALID: there is none, or one of them cannot be read.
    """
    homes = (
        [path]
        if (path / TASK_FILE).is_file()
        else sorted(
            file.parent
            for pattern in (f"*/{TASK_FILE}", f"tasks/*/{TASK_FILE}")
            for file in path.glob(pattern)
        )
    )
    if not homes:
        look = "Harbor tasks: use --format harbor" if any(path.glob("**/task.toml")) else "no task.yaml"
        raise SWEBENCH_INSTANCE_INVALID.error(f"{path}: expected tasks with {TASK_FILE}, found {look}")
    for home in homes:
        yield str(home), _read_task(home)


def _read_task(home: Path) -> dict[str, Any]:
    row: dict[str, Any] = _read_flat_yaml(_read(home / TASK_FILE), home / TASK_FILE)
    if "instance_id" not in row and {"instruction", "parser_name"} & row.keys():
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{home}: expected a task of SWE-bench, found a task of Terminal-Bench 1",
            hint="convert it with `harbor task migrate`, then use --format harbor",
        )
    tests = _read(home / "tests.json")
    try:
        lists = msgspec.json.decode(tests, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{home / 'tests.json'}: expected lists of tests, found: {str(error)[:120]}"
        ) from error
    return {
        **row,
        "FAIL_TO_PASS": lists.get("FAIL_TO_PASS", []),
        "PASS_TO_PASS": lists.get("PASS_TO_PASS", []),
        "patch": _read(home / "gold.patch"),
        "test_patch": _read(home / "test.patch"),
        "problem_statement": _read(home / "problem_statement.md"),
    }


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{path}: expected at most {_MAX_FILE_BYTES} bytes, found more"
            )
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        shown = error.strerror if isinstance(error, OSError) else str(error)
        raise SWEBENCH_INSTANCE_INVALID.error(f"{path}: expected a text file, found: {shown}") from error


def _read_flat_yaml(text: str, path: Path) -> dict[str, str]:
    """The keys of a task file: one `key: value` on a line; lists below a key are passed over.

    More of YAML is not needed: the format has no more, and a library for it would be a dependency.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(("#", "-", " ", "\t")) or line == "---":
            continue
        match = _FLAT.fullmatch(line)
        if match is None:
            raise SWEBENCH_INSTANCE_INVALID.error(
                f"{path}:{number}: expected `key: value`, found {line[:80]!r}"
            )
        value = match["value"]
        if value is not None and value not in {"null", "~", "[]"}:
            found[match["key"]] = _unquote(value)
    return found


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(msgspec.json.decode(value))
        except msgspec.DecodeError:
            return value[1:-1]
    return value


def find_checkout(repos: Path, repo: str) -> Path:
    """The checkout of `owner/name` below a directory of checkouts.

    Raises:
        SWEBENCH_INSTANCE_INVALID: there is none; the message names the places that were looked at.
    """
    owner, _, name = repo.partition("/")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo) or ".." in {owner, name}:
        raise SWEBENCH_INSTANCE_INVALID.error(f"repo: expected owner/name, found {repo[:80]!r}")
    names = (f"{owner}/{name}", f"{owner}__{name}", name)
    for candidate in (f"{stem}{end}" for stem in names for end in ("", ".git", ".bundle")):
        if (repos / candidate).exists():
            return repos / candidate
    raise SWEBENCH_INSTANCE_INVALID.error(
        f"{repo}: expected a checkout in {repos}, found none of {', '.join(names)}",
        hint=f"clone it: `git clone --bare URL {repos / owner / name}.git`",
    )
