"""Ground truth: which source wins, what each of its forms says, and that nothing of it is fatal."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.retrieval._contract_truth import read_patch
from repotrial.retrieval._truth import CHAIN, find_truth
from support.retrieval_cases import list_cases, load_case, unpack_case

_PATCH = """\
diff --git a/src/new name.py b/src/new name.py
--- a/src/new name.py
+++ b/src/new name.py
@@ -1 +1 @@
-+++ b/fake.py
+--- a/other-fake.py
diff --git a/old.py b/moved.py
similarity index 100%
rename from old.py
rename to moved.py
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
"""

DELIBERATE = {
    "23_defects_as_object/review-001": '`{"defects": [...]}` is a form as well',
    "42_gt_chain_sdlc/gt-topics-001": "a file that names none does not end the chain",
    "42_gt_chain_sdlc/gt-nonstr-001": "entries that are no text do not end the chain",
    "42_gt_chain_sdlc/gt-testsh-001": "the instruction comes before the test script, as specified",
    "42_gt_chain_sdlc/gt-instr-001": "one pass in the order of the text finds every path",
    "44_org_oracles/ccx-empty-001": "an answer that names nothing does not end the chain",
}
"""Where our files are not the reference's, and why."""


@pytest.mark.parametrize("file", list_cases())
def test_every_entry_of_every_case(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    root = unpack_case(case, tmp_path)
    for task, entry in (case["expected"].get("ground_truth_files.json") or {}).items():
        claim = find_truth(root / "benchmarks" / entry["benchmark"] / task, has_further=True).claim
        found = () if claim is None else claim.files
        is_same = found == tuple(entry["files"])
        assert is_same != (f"{case['name']}/{task}" in DELIBERATE), (task, found)


def _write(root: Path, name: str, value: Any) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("name", "value", "files", "confidence"),
    [
        ("tests/ground_truth.json", ["a.py", 3, "a.py"], ("a.py",), "high"),
        ("tests/ground_truth.json", {"files": ["x/y"], "confidence": "low"}, ("x/y",), "low"),
        ("tests/ground_truth.json", {"buggy_files": ["b.c"]}, ("b.c",), "high"),
        (
            "tests/ground_truth.json",
            {"file_references": [{"patterns": ["src/a\\.py", "x"]}]},
            ("src/a.py",),
            "high",
        ),
        ("tests/expected_changes.json", {"expected_files": ["c.go"]}, ("c.go",), "high"),
        ("tests/expected.diff", _PATCH, ("src/new name.py", "old.py", "gone.py"), "high"),
        ("solution/solve.sh", f"git apply <<'EOF'\n{_PATCH}EOF\n", None, "medium"),
        (
            "instruction.md",
            "Mend `src/core/a.py`, not https://example.org/b/c.py.",
            ("src/core/a.py",),
            "medium",
        ),
        ("tests/test.sh", "pytest tests/unit/test_a.py\n", ("tests/unit/test_a.py",), "low"),
    ],
)
def test_forms(tmp_path: Path, name: str, value: Any, files: tuple[str, ...] | None, confidence: str) -> None:
    _write(tmp_path, name, value)
    truth = find_truth(tmp_path)
    assert truth.claim is not None
    assert truth.claim.confidence == confidence
    if files is not None:
        assert truth.claim.files == files
    assert [step.outcome for step in truth.attempts if step.path == name] == ["taken"]


def test_the_first_source_wins_and_the_chain_says_what_became_of_the_others(tmp_path: Path) -> None:
    _write(tmp_path, "tests/ground_truth.json", "{broken")
    _write(tmp_path, "tests/expected_changes.json", {"expected_files": ["right.py"]})
    _write(tmp_path, "instruction.md", "See src/weaker.py .")
    truth = find_truth(tmp_path)
    assert truth.claim is not None
    assert truth.claim.files == ("right.py",)
    assert truth.editing is truth.claim
    outcomes = {step.path: step.outcome for step in truth.attempts}
    assert outcomes["tests/ground_truth.json"] == "unreadable"
    assert outcomes["instruction.md"] == "not-reached"
    assert list(outcomes) == [name for name, _ in CHAIN]


def test_several_repositories_are_told_apart(tmp_path: Path) -> None:
    answer = {"files": [{"repo": "o/a", "path": "x.py"}, {"repo": "o/b", "path": "x.py"}]}
    _write(tmp_path, "tests/oracle_answer.json", answer)
    truth = find_truth(tmp_path, has_further=True)
    assert truth.claim is not None
    assert truth.claim.files == ("o/a::x.py", "o/b::x.py")


@pytest.mark.parametrize("name", ["tests/oracle_answer.json", "tests/instance.json", "environment/solve.sh"])
def test_sources_that_the_specification_does_not_name_are_off_by_default(tmp_path: Path, name: str) -> None:
    answer = {"files": [{"path": "x.py"}], "build_files": ["x.py"]}
    _write(tmp_path, name, _PATCH if name.endswith(".sh") else answer)
    truth = find_truth(tmp_path)
    assert truth.claim is None
    assert name not in {step.path for step in truth.attempts}
    assert find_truth(tmp_path, has_further=True).claim is not None


def test_each_level_has_its_own_source(tmp_path: Path) -> None:
    """R6: what wins for files says nothing about edits and lines."""
    _write(tmp_path, "tests/ground_truth.json", {"files": ["seen.py"]})
    _write(tmp_path, "tests/expected_defects.json", [{"file": "d.py", "line_start": 3, "line_end": 5}])
    _write(tmp_path, "tests/reference_fix.patch", _PATCH)
    truth = find_truth(tmp_path)
    assert truth.claim is not None
    assert truth.editing is not None
    assert truth.claim.files == ("seen.py",)
    assert truth.editing.edits == ("src/new name.py", "moved.py", "old.py", "gone.py")
    assert [(chunk.file, chunk.line_start) for chunk in truth.chunks] == [("d.py", 3)]
    outcomes = {step.path: step.detail for step in truth.attempts if step.outcome == "taken"}
    assert outcomes == {
        "tests/ground_truth.json": "ground_truth_json_files, high confidence: 1 files",
        "tests/expected_defects.json": "expected_defects_json, high confidence: 1 chunks",
        "tests/reference_fix.patch": "patch, high confidence: 4 expected edits",
    }


def test_a_file_that_the_reference_creates_is_an_edit_and_no_evidence(tmp_path: Path) -> None:
    created = (
        "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n"
    )
    _write(tmp_path, "tests/expected.patch", created)
    _write(tmp_path, "instruction.md", "Look at src/old.py .")
    truth = find_truth(tmp_path)
    assert truth.claim is not None
    assert truth.editing is not None
    assert (truth.claim.source, truth.claim.files) == ("instruction", ("src/old.py",))
    assert truth.editing.edits == ("new.py",)


def test_files_that_a_source_calls_buggy_are_no_expected_edits(tmp_path: Path) -> None:
    _write(tmp_path, "tests/ground_truth.json", {"buggy_files": ["b.c"]})
    assert find_truth(tmp_path).editing is None


def test_symbols_come_from_the_task_specification(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "task_spec.json",
        {"artifacts": {"oracle": [{"path": "a.py", "symbol": "f"}, {"path": "b"}]}},
    )
    (symbol,) = find_truth(tmp_path).symbols
    assert (symbol.file, symbol.symbol) == ("a.py", "f")


@given(st.sampled_from([name for name, _ in CHAIN]), st.binary(max_size=200))
def test_no_bytes_stop_the_chain(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        (step,) = (step for step in find_truth(Path(place)).attempts if step.path == name)
        assert step.outcome in {"unreadable", "nothing", "taken"}


def test_quoted_names_of_a_patch_are_read() -> None:
    text = 'diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\nold mode 100644\nnew mode 100755\n'
    found = read_patch(text, "high")
    assert found is not None
    assert found.files == ("café.py",)
