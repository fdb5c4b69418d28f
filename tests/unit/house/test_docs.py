"""Documentation that cannot drift: generated pages, links, paths."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tools import load_tool

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
"""Pages that are not printed from the source."""
REQUIREMENTS = ROOT.parent / "shared" / "REQUIREMENTS.md"
OBLIGATIONS = {"C": 15, "P": 32, "S": 14, "B": 17, "X": 6, "R": 19, "Q": 22}
"""How many obligations each chapter has."""

PROJECT_TERMS = (
    *("attempt", "breaker", "certificate", "cheat", "draw", "envelope", "gate", "inventory", "keeper"),
    *(
        "launch server",
        "moot",
        "oracle",
        "recording",
        "seal",
        "stage",
        "tape",
        "twin",
        "twin run",
        "upstream",
    ),
)
"""Words with a meaning of their own in this project."""

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize(("name", "text"), sorted(load_tool("generate").build_files().items()))
def test_generated_files_are_what_the_code_prints(name: str, text: str) -> None:
    path = ROOT / name
    assert path.exists(), "run `make docs`"
    assert path.read_text(encoding="utf-8") == text, "run `make docs`"


@pytest.mark.parametrize("path", sorted((ROOT / "schemas").glob("*.json")), ids=lambda path: path.name)
def test_every_field_of_every_document_is_described(path: Path) -> None:
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    silent = [
        f"{name}.{field}"
        for name, definition in definitions.items()
        for field, schema in definition.get("properties", {}).items()
        # A tag's only value says all there is to say.
        if "description" not in schema and len(schema.get("enum", ())) != 1
    ]
    assert not silent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        linked = (page.parent / target).resolve()
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            headings = _HEADING.findall(linked.read_text(encoding="utf-8"))
            assert anchor[1:] in {_anchor(heading) for heading in headings}, anchor


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_conformance_names_only_what_exists() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|schemas|docs|examples|bench|tools)/[^`]+)`", page)
    assert paths
    missing = [path for path in paths if not (ROOT / path.partition("::")[0]).exists()]
    assert not missing
    functions = [path.split("::", 1) for path in paths if "::" in path]
    assert functions
    unknown = [
        f"{file}::{name}"
        for file, name in functions
        if f"def {name.partition('[')[0]}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert not unknown


def test_conformance_has_every_obligation_with_a_plain_state() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert not _list_conformance_problems(page)


def test_conformance_agrees_with_the_list_of_requirements() -> None:
    if not REQUIREMENTS.exists():
        pytest.skip("the list of obligations is not beside this checkout")
    wanted = re.findall(r"^- ([A-Z]\d+) ", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert wanted == list(_iter_obligations())


@pytest.mark.parametrize(
    ("pattern", "replacement", "problem"),
    [
        (r"^\| Q22 \|.*\n", "", "Q22: no row"),
        (r"^\| P13 \|.*\n", "", "P13: no row"),
        (r"^\| (S6) \|", r"| S6 | twice | met | `src` | `tests` |  |\n| \1 |", "S6: 2 rows"),
        (r"^(\| S6 \| [^|]+ \|) met \|", r"\1 met for most |", "S6: unknown state 'met for most'"),
        (r"^(\| S6 \| [^|]+ \|) met \|", r"\1 partly: |", "S6: unknown state 'partly:'"),
        (r"^(\| S6 \| [^|]+ \| met \| [^|]+ \|) [^|]+ \|", r"\1  |", "S6: met without code or tests"),
    ],
    ids=["last-row-gone", "row-gone", "row-twice", "generous-state", "nothing-missing", "no-test"],
)
def test_a_conformance_page_with_a_gap_is_noticed(pattern: str, replacement: str, problem: str) -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    changed = re.sub(pattern, replacement, page, flags=re.MULTILINE)
    assert changed != page
    assert problem in _list_conformance_problems(changed)


def _iter_obligations() -> Iterator[str]:
    for chapter, count in OBLIGATIONS.items():
        yield from (f"{chapter}{number}" for number in range(1, count + 1))


def _list_conformance_problems(page: str) -> list[str]:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if re.match(r"\| [A-Z]\d+ \|", line)
    ]
    counts = Counter(row[0] for row in rows)
    problems = [f"{name}: no row" for name in _iter_obligations() if name not in counts]
    problems += [f"{name}: {count} rows" for name, count in counts.items() if count > 1]
    for name, _, state, code, tests, _ in rows:
        if re.fullmatch(r"met|not yet|partly: .+", state) is None:
            problems.append(f"{name}: unknown state {state!r}")
        if state == "met" and not (code and tests):
            problems.append(f"{name}: met without code or tests")
    return problems


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_do_not_describe_things_as_persons(page: Path) -> None:
    found = re.findall(r"(?i)\b(?:nobody|somebody|anybody|whoever)\b", page.read_text(encoding="utf-8"))
    assert not found


@pytest.mark.parametrize("term", PROJECT_TERMS)
def test_a_project_term_is_in_the_glossary(term: str) -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert term in {name for row in rows for name in row.split(", ")}


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "adr").glob("[0-9]*.md"):
        assert page.name in index
        assert "Status: " in page.read_text(encoding="utf-8")


def test_the_readme_shows_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_every_make_target_that_the_pages_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z]+)`", page.read_text(encoding="utf-8")))
        assert named <= targets, page.name


def test_shell_scripts_parse() -> None:
    for script in [*(ROOT / "tools").glob("*.sh"), ROOT / ".ci" / "run"]:
        done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


_IMPORT = re.compile(r"^from (repotrial[\w.]*) import (.+)$", re.MULTILINE)


def test_imports_in_examples_of_the_documentation_work() -> None:
    found = [
        (path.name, module, name.strip())
        for path in (ROOT / "docs").rglob("*.md")
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in names.split(",")
    ]
    assert found
    assert [each for each in found if not hasattr(importlib.import_module(each[1]), each[2])] == []


_NAMED_FILE = re.compile(r"`((?:src/)?repotrial/[\w/.]+\.\w+|(?:tests|tools|bench|examples)/[\w/.-]+\.\w+)`")


def test_files_that_pages_name_are_there() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "bench" / "README.md"]
    named = [
        (page.name, f"src/{name}" if name.startswith("repotrial/") else name)
        for page in pages
        if page.name != "CHANGELOG.md"
        for name in _NAMED_FILE.findall(page.read_text(encoding="utf-8"))
    ]
    assert named
    assert [each for each in named if not (ROOT / each[1]).exists()] == []


_PERSONS = re.compile(r"\b(?:nobody|somebody|anybody|whoever)\b(?!-)", re.IGNORECASE)
_PERSONS_ALLOWED = {
    "_identity.py": "the account of that name",
    "_bubblewrap.py": "the account of that name",
    "_inbox.py": "a value in recorded events",
    "_facts.py": "a person who vouches",
    "_run_cost.py": "a person who was paid",
    "_summary.py": "a person who was paid",
    "_model_source.py": "a person who was paid",
    "_gates.py": "a reason in recorded verdicts",
}


def test_source_does_not_tell_things_as_persons() -> None:
    found = {
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if _PERSONS.search(path.read_text(encoding="utf-8").replace("become-somebody-else", ""))
    }
    assert found == set(_PERSONS_ALLOWED)


_CAP = re.compile(r"\bcaps?\b", re.IGNORECASE)
_NO_CAPS_OF_A_RUN = {"conformance.md", "add-an-agent.md"}
"""The first tells of clauses; the second of what an adapter passes on."""


def test_a_page_that_names_a_cap_calls_it_a_policy_choice() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"]
    named = [page for page in pages if _CAP.search(page.read_text(encoding="utf-8"))]
    assert len(named) > len(_NO_CAPS_OF_A_RUN)
    silent = {page.name for page in named if "policy choice" not in page.read_text(encoding="utf-8")}
    assert silent <= _NO_CAPS_OF_A_RUN
