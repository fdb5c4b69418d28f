"""Documentation that cannot drift: generated pages, links, paths."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
REQUIREMENTS = ROOT.parent / "shared" / "REQUIREMENTS.md"

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "text"), sorted(_load_generator().build_files().items()))
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
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_conformance_has_every_obligation() -> None:
    if not REQUIREMENTS.exists():
        pytest.skip("the list of obligations is not beside this checkout")
    wanted = re.findall(r"^- ([A-Z]\d+) ", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([A-Z]\d+) \|", page, flags=re.MULTILINE) == wanted


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
