"""Breaks the code on purpose and asks whether the tests that `docs/conformance.md` names notice.

Each row of `tests/data/mutants.toml` is one breakage: a requirement, a file, a text that stands in it once,
and what to put in its place. It is applied to a copy of the tree, and the tests of the requirement's row run
against that copy: its functions, then the files of `tests/unit` that it names whole. A breakage is noticed
if a test fails; an import that fails, or a name that pytest does not find, is not a notice, and neither is
a test that fails without a breakage as well. `make mutants` tries all of them, `--sample` those that
`make test` tries, by functions alone.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "data" / "mutants.toml"
PAGE = ROOT / "docs" / "conformance.md"
_NAMED = re.compile(r"`(tests/(?:[\w/.-]+\.py::[\w\[\]./-]+|unit/[\w/.-]+\.py))`")
_TESTS_FAILED = 1  # pytest: tests ran, and some failed
_LONGEST_SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    """One breakage."""

    id: str
    requirement: str
    file: str
    find: str
    replace: str
    is_sample: bool = False
    tests: tuple[str, ...] = ()
    """Which of the row's tests notice it; empty: any of them."""


def load_mutants(table: Path = TABLE) -> list[Mutant]:
    """Read the table."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
    return [
        Mutant(
            id=row["id"],
            requirement=row["requirement"],
            file=row["file"],
            find=row["find"],
            replace=row["replace"],
            is_sample=row.get("sample", False),
            tests=tuple(row.get("tests", ())),
        )
        for row in rows
    ]


def list_row_tests(page: str) -> dict[str, tuple[str, ...]]:
    """The tests that each row of the conformance page names: functions first, then files of `tests/unit`."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if re.fullmatch(r"[A-Z]\d+", cells[0]):
            found[cells[0]] = tuple(sorted(_NAMED.findall(line), key=lambda name: "::" not in name))
    return found


def _keep_functions(rows: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {row: tuple(name for name in names if "::" in name) for row, names in rows.items()}


def list_problems(
    mutants: Sequence[Mutant], rows: dict[str, tuple[str, ...]], root: Path = ROOT
) -> list[str]:
    """What is wrong with the table itself, as lines."""
    found = []
    seen: set[str] = set()
    for mutant in mutants:
        if mutant.id in seen:
            found.append(f"{mutant.id}: expected an id of its own, found it twice")
        seen.add(mutant.id)
        path = root / mutant.file
        count = path.read_text(encoding="utf-8").count(mutant.find) if path.is_file() else 0
        if count != 1:
            found.append(f"{mutant.id}: expected its text once in {mutant.file}, found it {count} times")
        named = rows.get(mutant.requirement, ())
        if not named:
            found.append(f"{mutant.id}: expected a row {mutant.requirement} that names test functions")
        found += [
            f"{mutant.id}: expected {test} in the row {mutant.requirement}, found it not there"
            for test in mutant.tests
            if test not in named
        ]
    return found


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """The files of the tree as hard links: a file is replaced before it is changed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = root / name
        if not name or not (source.is_file() or source.is_symlink()):
            continue
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, place, follow_symlinks=False)
        except OSError:  # another file system
            shutil.copy2(source, place, follow_symlinks=False)


def make_environment(target: Path) -> Path:
    """A virtual environment with the packages of this one, in which `repotrial` is the copy; its Python."""
    place = target / ".venv"
    venv.create(place, symlinks=True, with_pip=False)
    packages = sysconfig.get_path("purelib")
    inner = next((place / "lib").glob("python*/site-packages"))
    lines = f"{target / 'src'}\nimport site; site.addsitedir({packages!r})\n"
    (inner / "mutant.pth").write_text(lines, encoding="utf-8")
    command = place / "bin" / "repotrial"
    command.write_text(f"#!{place}/bin/python\nfrom repotrial.cli import main\nmain()\n", encoding="utf-8")
    command.chmod(0o755)
    return place / "bin" / "python"


def try_mutant(mutant: Mutant, tests: Sequence[str], place: Path, python: Path) -> str:
    """`noticed`, or why not."""
    path = place / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.unlink()  # the hard link goes, the tree's own file stays
    path.write_text(whole.replace(mutant.find, mutant.replace), encoding="utf-8")
    try:
        done = _run_tests(tests, place, python, "-x")
    except subprocess.TimeoutExpired:
        return f"no answer within {_LONGEST_SECONDS} s"
    finally:
        path.write_text(whole, encoding="utf-8")
    if done.returncode == _TESTS_FAILED:
        return "noticed"
    if done.returncode == 0:
        return "every named test passed"
    last = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[-1]
    return f"the tests did not run: {last}"


def find_failing(tests: Sequence[str], place: Path, python: Path) -> list[str]:
    """Tests that fail in the unbroken copy: what they say about a breakage is nothing."""
    try:
        done = _run_tests(tests, place, python, "-rfE")
    except subprocess.TimeoutExpired:
        return [f"no answer within {_LONGEST_SECONDS} s"]
    if done.returncode == 0:
        return []
    named = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return named or [f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}"]


def _run_tests(
    tests: Sequence[str], place: Path, python: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:randomly", "--no-header", *options, *tests],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )


def _choose(mutants: Sequence[Mutant], options: argparse.Namespace) -> Iterator[Mutant]:
    for mutant in mutants:
        if options.sample and not mutant.is_sample:
            continue
        if options.only and mutant.id not in options.only and mutant.requirement not in options.only:
            continue
        yield mutant


def main() -> int:
    """Print a line for each breakage; 1 if one was not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", action="store_true", help="only those that `make test` tries")
    parser.add_argument("only", nargs="*", help="ids of breakages or requirements")
    options = parser.parse_args()
    mutants, rows = load_mutants(), list_row_tests(PAGE.read_text(encoding="utf-8"))
    problems = list_problems(mutants, rows)
    rows = _keep_functions(rows) if options.sample else rows
    for problem in problems:
        print(problem)
    chosen = list(_choose(mutants, options))
    missed = len(problems)
    broken = {problem.partition(":")[0] for problem in problems}
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        place = Path(scratch) / "tree"
        Path(scratch).chmod(0o755)
        copy_tree(place)
        python = make_environment(place)
        wanted = {test for mutant in chosen for test in mutant.tests or rows.get(mutant.requirement, ())}
        for test in find_failing(sorted(wanted), place, python) if wanted else ():
            missed += 1
            print(f"without a breakage: expected a pass, found a failure: {test}", flush=True)
        for mutant in chosen:
            if mutant.id in broken:
                continue
            started = time.monotonic()
            answer = try_mutant(mutant, mutant.tests or rows[mutant.requirement], place, python)
            missed += answer != "noticed"
            seconds = time.monotonic() - started
            print(f"{mutant.requirement:4} {mutant.id:44} {answer} ({seconds:.0f} s)", flush=True)
    print(f"mutants: {len(chosen)} tried, {missed} problems or not noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
