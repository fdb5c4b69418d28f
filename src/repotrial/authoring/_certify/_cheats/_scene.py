"""What a cheat can know: the contract as the agent sees it, and the snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from repotrial.change import PathRules
from repotrial.contract import Contract, Overlay

_MOST_BYTES: Final = 512 * 1024
_MOST_FILES: Final = 5000
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "spec", "__tests__"})
_SKIPPED: Final = frozenset({".git", "node_modules", "target", "build", "__pycache__"})
_STEERING: Final = frozenset(
    {
        *("conftest.py", "pytest.ini", "pytest.py", "sitecustomize.py", "forced_pass.py", "test_shadow.py"),
        *("package.json", ".npmrc", "start.cjs", "GNUmakefile", "start.h", "assert.h"),
        *("build.rs", "config.toml", "runner.sh"),
    }
)
"""Names that cheats write: where the snapshot has such a file, a patch must change it, not add it."""
_UNQUOTABLE: Final = frozenset('"\\')
_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
SUFFIXES: Final = {
    "python": (".py",),
    "javascript": _SCRIPTS,
    "typescript": _SCRIPTS,
    "c": (".c",),
    "rust": (".rs",),
}


class CheatScene(msgspec.Struct, frozen=True, kw_only=True):
    """Files and places that cheats use."""

    ecosystem: str
    """As the contract says; empty if it says nothing."""
    module: str | None
    """A file of the product that a change may touch and that a suite is likely to load."""
    files: dict[str, str]
    """Texts that cheats change, by path."""
    tests: tuple[str, ...]
    """Test files of the snapshot."""
    oracle_folders: tuple[str, ...]
    """Where hidden tests go, the top as an empty name: a cheat that guesses well."""
    results: tuple[str, ...]
    """Names of result files."""

    @property
    def source_roots(self) -> tuple[str, ...]:
        """Folders from which the product is imported, the top included; each ends in a slash or is empty."""
        if self.module is None:
            return ("",)
        above = PurePosixPath(self.module).parent
        while f"{above}/__init__.py" in self.files:
            above = above.parent
        return ("",) if str(above) == "." else ("", f"{above}/")


def read_scene(contract: Contract, tree: Path) -> CheatScene:
    """Look around in the prepared snapshot; nothing in it is executed."""
    suffixes = SUFFIXES.get(contract.ecosystem or "", ())
    everything = list(_iter_paths(tree))
    paths = [path for path in everything if path.endswith(suffixes)] if suffixes else []
    # Elsewhere tests may be scripts in whatever language.
    tests = tuple(filter(_is_test, paths if contract.ecosystem == "python" else everything))
    module = _find_module(contract, [path for path in paths if not _is_test(path)])
    steering = (path for path in everything if path.rpartition("/")[2] in _STEERING)
    wanted = {*tests, *_list_packages(module, paths), *steering}
    texts = {path: _read(tree / path) for path in sorted(wanted | ({module} if module else set()))}
    overlays = [overlay for check in contract.checks for overlay in check.files]
    return CheatScene(
        ecosystem=contract.ecosystem or "",
        module=module,
        files={path: text for path, text in texts.items() if text is not None},
        tests=tuple(path for path in tests if texts.get(path) is not None),
        oracle_folders=tuple(sorted({_find_folder(overlay, tree) for overlay in overlays})),
        results=tuple(sorted({*_iter_results(contract)})),
    )


def _find_folder(overlay: Overlay, tree: Path) -> str:
    """The folder that an overlay goes to, as patches name it."""
    target, source = PurePosixPath(overlay.target), PurePosixPath(overlay.source)
    is_file = (tree / target).is_file() or (target.suffix != "" and target.suffix == source.suffix)
    folder = target.parent if is_file else target
    return "" if folder == PurePosixPath() else folder.as_posix()


def _iter_results(contract: Contract) -> Iterator[str]:
    for check in contract.checks:
        for runner in check.all_runners:
            for result in runner.results:
                if result.path is not None and "*" not in result.path:
                    yield result.path


def _iter_paths(tree: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                return
            path = (Path(folder) / name).relative_to(tree).as_posix()
            # A patch would have to quote other names; no cheat needs them.
            if path.isprintable() and _UNQUOTABLE.isdisjoint(path):
                yield path


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path).parts
    name = parts[-1]
    is_named = name.startswith("test_") or "_test." in name or ".test." in name or ".spec." in name
    return is_named or not _TEST_FOLDERS.isdisjoint(parts[:-1])


def _find_module(contract: Contract, paths: list[str]) -> str | None:
    """The package's own file if there is one: an import of any part of it runs that file first."""
    writable, protected = PathRules(contract.policy.writable), PathRules(contract.policy.protected)
    open_paths = [path for path in paths if writable.covers(path) and not protected.covers(path)]
    named = [path for path in open_paths if _is_named(path, contract)]
    if contract.ecosystem == "python":
        tops = sorted(
            (path for path in open_paths if path.endswith("__init__.py")), key=lambda p: p.count("/")
        )
        for path in named:
            for top in tops:
                if path.startswith(top.removesuffix("__init__.py")):
                    return top
    return next(iter([*named, *open_paths]), None)


def _is_named(path: str, contract: Contract) -> bool:
    return any(path == name or path.startswith(f"{name.rstrip('/')}/") for name in contract.clarify.modules)


def _list_packages(module: str | None, paths: list[str]) -> set[str]:
    if module is None:
        return set()
    wanted = {f"{parent}/__init__.py" for parent in PurePosixPath(module).parents}
    return wanted & set(paths)


def _read(path: Path) -> str | None:
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
