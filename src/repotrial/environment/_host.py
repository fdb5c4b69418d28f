"""`image = "host"`: the machine's own tools, as the sandbox's user sees them, held against a contract (C2).

A tool of the system is preferred. One below a home is taken only if it lies in a directory that holds nothing
but that tool (`HOME_LAYOUTS`); this directory is then listed in `tool_roots`, for the launcher to show it at
its own path, staged where the home is closed to the sandbox's user. Programs that lie loose in a home
(`~/bin`, shims) are not usable: showing them would mean showing the home.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest, digest_file
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.contract import Environment
from repotrial.environment._process import current_account, execute_program
from repotrial.environment._tools import (
    HOME_LAYOUTS,
    SYSTEM_PATH,
    ToolRule,
    find_rule,
    meets,
    parse_version,
    parse_version_output,
)
from repotrial.isolation import SYSTEM_ROOTS, Account, find_identity

_QUESTION_SECONDS = 20


HOST_TOOLS_UNMET = ErrorCode(
    "host-tools-unmet",
    MachineError,
    "This machine lacks tools that the contract asks for, or has them in other versions.",
    hint="install what is listed, or run the contract on a machine that has it",
)


class HostTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as it was found."""

    name: str
    path: Path
    """Its program."""
    version: str
    binary_digest: Digest
    root: Path | None = None
    """The directory that has to be shown for it; None for tools of the system."""


class HostToolProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that is missing or does not fit."""

    name: str
    expected: str
    found: str
    remedy: str


class HostToolchain(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a contract asks for, on this machine."""

    tools: Mapping[str, HostTool]
    problems: tuple[HostToolProblem, ...]
    versions: Mapping[str, str | Unknown]
    """Of every tool that the contract asks for."""
    tool_roots: tuple[Path, ...]
    """Directories outside the system's own that the sandbox has to show, at their own paths."""
    links: Mapping[str, Path]
    """Names that commands use and `search_path` does not lead to: `python` where there is only `python3`."""
    search_path: str
    """`PATH` inside the sandbox, but for the directory of `links`."""


def observe_host(
    environment: Environment,
    *,
    account: Account | None = None,
    search_path: str | None = None,
    home: Path | None = None,
) -> HostToolchain:
    """Find every tool that an environment asks for, with its exact version.

    Args:
        environment: As the contract declares it.
        account: Who will run them; the sandbox's user unless told.
        search_path: Where to look, as in `PATH`; the process's own unless told, the system's in any case.
        home: Whose tool directories count; the harness's own unless told.
    """
    searcher = _Searcher(
        account=find_identity(account),
        search_path=os.environ.get("PATH", "") if search_path is None else search_path,
        home=home or Path.home(),
    )
    tools: dict[str, HostTool] = {}
    problems: list[HostToolProblem] = []
    for name, constraint in sorted(_wanted(environment).items()):
        match searcher.find(name, constraint):
            case HostTool() as tool:
                tools[name] = tool
            case HostToolProblem() as problem:
                problems.append(problem)
    return _build_toolchain(tools, problems)


def verify_host(toolchain: HostToolchain) -> None:
    """Say everything that is missing at once.

    Raises:
        HOST_TOOLS_UNMET: something is.
    """
    if toolchain.problems:
        lines = [f"{item.name}: expected {item.expected}, found {item.found}" for item in toolchain.problems]
        raise HOST_TOOLS_UNMET.error(
            "; ".join(lines), hint="; ".join(dict.fromkeys(item.remedy for item in toolchain.problems))
        )


def _wanted(environment: Environment) -> dict[str, str]:
    """Constraints by tool; package environments need their interpreter, whether `tools` names it or not."""
    wanted = dict(environment.tools)
    for name, packages in (("python", environment.python), ("node", environment.node)):
        if packages is not None:
            clauses = [wanted.get(name), packages.version]
            wanted[name] = ",".join(dict.fromkeys(filter(None, clauses))) or ">=0"
    return wanted


def _build_toolchain(tools: dict[str, HostTool], problems: list[HostToolProblem]) -> HostToolchain:
    versions: dict[str, str | Unknown] = {name: tool.version for name, tool in tools.items()}
    versions |= {item.name: Unknown(reason=f"found {item.found}") for item in problems}
    roots = tuple(dict.fromkeys(tool.root for tool in tools.values() if tool.root is not None))
    search_path = ":".join([*(str(root / "bin") for root in roots), SYSTEM_PATH])
    return HostToolchain(
        tools=tools,
        problems=tuple(problems),
        versions=versions,
        tool_roots=roots,
        links=dict(_iter_links(tools, search_path)),
        search_path=search_path,
    )


def _iter_links(tools: dict[str, HostTool], search_path: str) -> Iterator[tuple[str, Path]]:
    for name, tool in tools.items():
        for alias in find_rule(name).aliases or (name,):
            found = shutil.which(alias, path=search_path)
            if found is None or Path(found).resolve() != tool.path.resolve():
                yield alias, tool.path


class _Searcher:
    """Looks for tools with the eyes of one account."""

    def __init__(self, *, account: Account, search_path: str, home: Path) -> None:
        self._account = account
        self._home = home
        entries = [*search_path.split(":"), *SYSTEM_PATH.split(":")]
        # A relative entry would let the current directory choose the program.
        self._path = [Path(entry) for entry in dict.fromkeys(entries) if entry.startswith("/")]

    def find(self, name: str, constraint: str) -> HostTool | HostToolProblem:
        rule = find_rule(name)
        rejected: list[str] = []
        for path, root in self._iter_candidates(rule):
            version = self._ask(rule, path, root)
            if version is None:
                rejected.append(f"{path} (does not run as user id {self._account.uid})")
            elif not meets(version, constraint):
                rejected.append(f"{version} ({path})")
            else:
                return HostTool(
                    name=name,
                    path=path,
                    version=version,
                    binary_digest=digest_file(path.resolve()),
                    root=root,
                )
        return HostToolProblem(
            name=name,
            expected=constraint,
            found=", ".join(dict.fromkeys(rejected)) or "none",
            remedy=_find_remedy(name, constraint, rule),
        )

    def _iter_candidates(self, rule: ToolRule) -> Iterator[tuple[Path, Path | None]]:
        """Programs, and the directory that each needs: the system's first, then tool homes, newest first."""
        elsewhere = []
        for program in rule.programs:
            for directory in self._path:
                path = directory / program
                if not _is_program(path):
                    continue
                if _is_within(path.resolve(), SYSTEM_ROOTS):
                    yield path, None
                elif (root := self._root_of(path.resolve())) is not None:
                    elsewhere.append((path.resolve(), root))
        yield from elsewhere
        for root in self._iter_tool_homes():
            for program in rule.programs:
                path = root / "bin" / program
                if _is_program(path) and path.resolve().is_relative_to(root.resolve()):
                    yield path.resolve(), root.resolve()
                    break

    def _root_of(self, path: Path) -> Path | None:
        """The directory that holds a tool outside the system's own; None if it holds other things too."""
        for root in self._iter_tool_homes():
            if path.is_relative_to(root.resolve()):
                return root.resolve()
        if _is_within(path, ("/root", "/home", "/tmp", "/var/tmp", str(self._home))):  # noqa: S108 - refused
            return None
        prefix = path.parent.parent
        return prefix if path.parent.name == "bin" and prefix.parent != prefix else None

    def _iter_tool_homes(self) -> Iterator[Path]:
        found = [root for layout in HOME_LAYOUTS for root in self._home.glob(layout) if root.is_dir()]
        yield from sorted(
            found, key=lambda root: (parse_version(_digits(root.name)) or (), root.name), reverse=True
        )

    def _ask(self, rule: ToolRule, path: Path, root: Path | None) -> str | None:
        """Its version; as the sandbox's user, or as the harness where the launcher has to stage it first."""
        accounts = [self._account] if root is None else [self._account, current_account()]
        for account in dict.fromkeys(accounts):
            try:
                finished = execute_program(
                    [str(path), *rule.arguments],
                    variables={"PATH": SYSTEM_PATH, "LC_ALL": "C", "HOME": "/nonexistent"},
                    seconds=_QUESTION_SECONDS,
                    account=account,
                    output_bytes=1 << 16,
                )
            except MachineError:  # `program-start`, `program-timeout`, `program-output`
                continue
            output = (finished.stdout + b"\n" + finished.stderr).decode(errors="replace")
            version = parse_version_output(rule, output) if finished.status == 0 else None
            if version is not None:
                return version
        return None


def _find_remedy(name: str, constraint: str, rule: ToolRule) -> str:
    if rule.source:
        return f"install {rule.source} ({constraint})"
    package = rule.package or name
    return f"install {name} {constraint} for all users, for example with `apt install {package}`"


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False


def _is_within(path: Path, roots: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _digits(name: str) -> str:
    """`cpython-3.12.1-linux` and `v20.1.0` from where their version begins."""
    start = next((index for index, char in enumerate(name) if char.isdigit()), len(name))
    return name[start:]
