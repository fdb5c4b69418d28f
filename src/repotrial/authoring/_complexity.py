"""`contract complexity`: proxies for how hard a repository is, measured from its snapshot (C14)."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import orjson

from repotrial._core.absence import NotComputable
from repotrial._core.clock import SystemClock
from repotrial._core.files import write_atomic
from repotrial._core.words import Level
from repotrial.authoring._certify._trials import CertificationTrial, TrialResult, collect_results
from repotrial.authoring._complexity_graph import list_python_imports, list_script_imports, measure_graph
from repotrial.contract import (
    Complexity,
    GraphSize,
    LoadedContract,
    NodeEnvironment,
    PythonEnvironment,
)
from repotrial.environment import InstallationSettings
from repotrial.fleet import FleetPlan, conduct_fleet
from repotrial.redaction import SecretRedactor
from repotrial.run import ReferenceAgent, RunSettings, Stopper
from repotrial.signing import SigningKey
from repotrial.source import materialize_snapshot
from repotrial.trace import AcceptanceExecution, BuildCheck, RunPaths, StaticCheck, iter_events
from repotrial.workspace import CONTRACT_UNLOCKED

_LANGUAGES: Final[Mapping[str, str]] = {
    ".py": "python",
    ".js": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".jsx": "javascript",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".rs": "rust",
    ".go": "go",
    ".c": "c",
    ".h": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".hpp": "c++",
    ".java": "java",
    ".rb": "ruby",
    ".sh": "shell",
    ".sql": "sql",
    ".md": "prose",
    ".rst": "prose",
    ".txt": "prose",
    ".toml": "configuration",
    ".json": "configuration",
    ".yaml": "configuration",
    ".yml": "configuration",
}
_SCRIPTS: Final = frozenset({"javascript", "typescript"})
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_]+|[^\sA-Za-z0-9_]")
_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==", re.ASCII)
_VIA: Final = re.compile(r"^\s*#\s*(?:via\s+)?([A-Za-z0-9][A-Za-z0-9._-]*)\s*$", re.ASCII)
_LEAST_WITH_EDGES: Final = 2
_MOST_BYTES: Final = 2 << 20
"""Larger files are data, not what an agent reads."""


@dataclass(frozen=True, kw_only=True)
class ComplexitySettings:
    """Where and how the checks are timed."""

    installation: InstallationSettings
    key: SigningKey
    """Seals the run that is timed."""
    level: Level = Level.L3
    """Isolation of that run."""
    is_timed: bool = True
    """Whether the checks are run on the reference change, to time them."""


def measure_complexity(loaded: LoadedContract, settings: ComplexitySettings) -> Complexity:
    """Measure a locked contract, and write `complexity.json` beside it.

    Raises:
        CONTRACT_UNLOCKED: it is not locked.
        RepoTrialError: the snapshot cannot be read.
    """
    if loaded.lock is None:
        raise CONTRACT_UNLOCKED.error(f"{loaded.directory}: expected a locked contract, found no lock")
    files, lines = Counter[str](), Counter[str]()
    texts: dict[str, bytes] = {}
    tokens = 0
    with tempfile.TemporaryDirectory(prefix="repotrial-complexity-") as place:
        materialize_snapshot(loaded.contract.repository, base=loaded.directory, into=Path(place) / "tree")
        for name, data in _iter_texts(Path(place) / "tree"):
            tokens += sum(1 for _ in _TOKEN.finditer(data))
            language = _find_language(name)
            if language is not None:
                files[language] += 1
                lines[language] += sum(1 for line in data.splitlines() if line.strip())
                texts[name] = data
    measured = Complexity(
        contract_id=loaded.contract.id,
        version_id=loaded.lock.version_id,
        measured_at_us=SystemClock().now_us(),
        tokens=tokens,
        files=dict(sorted(files.items())),
        lines=dict(sorted(lines.items())),
        imports=_measure_imports(texts),
        dependencies=_measure_dependencies(loaded),
        test_us=_time_checks(loaded, settings),
    )
    write_atomic(loaded.directory / Complexity.FILE, measured.to_bytes())
    return measured


def _find_language(name: str) -> str | None:
    return _LANGUAGES.get(PurePosixPath(name).suffix.lower())


def _iter_texts(root: Path) -> Iterator[tuple[str, bytes]]:
    """Files that hold text and are not links, by their path."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
                continue
            data = path.read_bytes()
            if b"\0" not in data:
                yield path.relative_to(root).as_posix(), data


def _measure_imports(texts: Mapping[str, bytes]) -> GraphSize | NotComputable:
    python = {name: data for name, data in texts.items() if name.endswith(".py")}
    scripts = {name: data for name, data in texts.items() if _find_language(name) in _SCRIPTS}
    if not python and not scripts:
        return NotComputable(reason="imports are read from Python, JavaScript and TypeScript only")
    edges = [*list_python_imports(python), *list_script_imports(scripts)]
    return measure_graph([*python, *scripts], edges)


def _measure_dependencies(loaded: LoadedContract) -> GraphSize | NotComputable:
    environment = loaded.contract.environment
    nodes: set[str] = set()
    edges: list[tuple[str, str]] = []
    if environment.python is None and environment.node is None:
        return NotComputable(reason="the contract's environment installs no locked packages")
    for kind in (environment.python, environment.node):
        match kind:
            case PythonEnvironment(lock=name):
                text = (loaded.directory / name).read_text(encoding="utf-8", errors="replace")
                found = _read_requirements(text)
            case NodeEnvironment(lock=name):
                found = _read_package_lock((loaded.directory / name).read_bytes())
            case _:
                continue
        nodes.update(found[0])
        edges += found[1]
    if edges or len(nodes) < _LEAST_WITH_EDGES:
        return measure_graph(nodes, edges)
    unstated = NotComputable(reason="the lock does not say which package needs which")
    return GraphSize(nodes=len(nodes), edges=unstated, depth=unstated)


def _read_requirements(text: str) -> tuple[set[str], list[tuple[str, str]]]:
    """Packages of a requirements lock; what needs them stands in comments behind each (`# via`)."""
    nodes: set[str] = set()
    edges: list[tuple[str, str]] = []
    package = ""
    for line in text.splitlines():
        if (pin := _PIN.match(line)) is not None:
            package = pin[1].lower()
            nodes.add(package)
        elif package and (via := _VIA.match(line)) is not None:
            edges.append((via[1].lower(), package))
    return nodes, [edge for edge in edges if edge[0] in nodes]


def _read_package_lock(data: bytes) -> tuple[set[str], list[tuple[str, str]]]:
    try:
        packages = orjson.loads(data).get("packages", {})
    except (orjson.JSONDecodeError, AttributeError):
        return set(), []
    named = {path.rpartition("node_modules/")[2]: entry for path, entry in packages.items() if path}
    edges = [
        (name, needed)
        for name, entry in named.items()
        if isinstance(entry, dict)
        for needed in entry.get("dependencies", {})
        if needed in named
    ]
    return set(named), edges


def _time_checks(loaded: LoadedContract, settings: ComplexitySettings) -> int | NotComputable:
    if not settings.is_timed:
        return NotComputable(reason="the checks were not run")
    if loaded.reference is None:
        return NotComputable(reason="the contract has no reference change to run the checks on")
    with tempfile.TemporaryDirectory(prefix="repotrial-complexity-") as place:
        trial = CertificationTrial(purpose="complexity", agent=ReferenceAgent(), loaded=loaded)
        plan = FleetPlan(runs=(trial.plan(settings.level),))
        run = RunSettings(runs=Path(place), key=settings.key, redactor=SecretRedactor({}), stopper=Stopper())
        events = conduct_fleet(plan, run, installation=settings.installation)
        (result,) = collect_results([trial], plan, events, _ignore)
        return sum(_iter_durations(Path(place) / result.run_id))


def _ignore(_result: TrialResult) -> None:
    """Nothing waits for it."""


def _iter_durations(directory: Path) -> Iterable[int]:
    for event in iter_events(RunPaths(directory).trace):
        match event.payload:
            case BuildCheck() | StaticCheck() | AcceptanceExecution() as execution:
                yield max(0, execution.ended_at_us - execution.started_at_us)
            case _:
                continue
