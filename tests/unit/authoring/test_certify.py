"""Certification's own decisions, without a machine: flakiness, leaks, order and patches."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from repotrial._core.digest import digest_bytes
from repotrial.authoring._certify import _file as _procedure
from repotrial.authoring._certify._certify import build_oversized_patch
from repotrial.authoring._certify._cheats import build_cheats
from repotrial.authoring._certify._cheats._common import TRICKS, Cheat, NotApplicable, build_patch
from repotrial.authoring._certify._cheats._scene import Scene, read_scene
from repotrial.authoring._certify._items import (
    judge_cheats,
    judge_reference,
    judge_stability,
    judge_strength,
    judge_twins,
)
from repotrial.authoring._certify._model import CheatTrial
from repotrial.authoring._certify._scan import find_leaked_oracle, find_leaked_reference
from repotrial.authoring._certify._trials import Trial, TrialResult, end_at_failure, reorder_checks
from repotrial.change import read_change
from repotrial.contract import (
    Check,
    FilePin,
    Inventory,
    LoadedContract,
    Overlay,
    Policy,
    RepositoryPin,
    build_lock,
)
from repotrial.policy import check_change
from repotrial.run import NoopAgent
from repotrial.score import build_score_card, load_evidence
from repotrial.trace import CheckOutcome
from support.score_runs import BUILD, FAILED, HUNG, PASSED, TREE, UNIT, ScoreRun, build_contract, write_run

REFERENCE = b"""\
diff --git a/wrap.py b/wrap.py
index 1111111..2222222 100644
--- a/wrap.py
+++ b/wrap.py
@@ -1,2 +1,5 @@
 import sys
-old = 1
+def measure(text):
+    columns = sum(width_of(each) for each in text)
+    return max(columns, minimum_of(text))
+old = 2
"""


_FOLDERS = {"python": "python", "javascript": "node", "c": "c", "rust": "rust"}


def build_loaded(*checks: Check, reference: bytes = REFERENCE) -> LoadedContract:
    loaded = LoadedContract(
        directory=Path(),
        contract=build_contract(checks or (BUILD, UNIT)),
        statement="Make it right.\n",
        reference=reference,
        inventories={},
        files=(),
        lock=None,
    )
    return replace(loaded, lock=build_lock(loaded, RepositoryPin(tree_digest=TREE)))


def build_result(place: Path, outcome: CheckOutcome) -> TrialResult:
    return read_result(place, write_run(place, {"unit": outcome}))


def read_result(place: Path, directory: Path) -> TrialResult:
    evidence = load_evidence(directory)
    return TrialResult(
        trial=Trial(purpose="untouched", agent=NoopAgent(), loaded=build_loaded()),
        run_id=place.name,
        card=build_score_card(evidence),
        evidence=evidence,
        seal_digest=digest_bytes(b""),
    )


def test_a_flaky_check_is_named_with_the_way_on(tmp_path: Path) -> None:
    said: list[CheckOutcome] = [PASSED, FAILED, PASSED]
    results = [build_result(tmp_path / str(number), outcome) for number, outcome in enumerate(said)]
    item = judge_stability((UNIT,), results, [])
    assert item.outcome == "fails"
    assert "unit is flaky" in item.findings[0]
    assert "lock the contract anew: the version id changes" in item.findings[0]


def test_what_a_check_tolerates_is_not_held_against_it(tmp_path: Path) -> None:
    results = [build_result(tmp_path / "a", PASSED), build_result(tmp_path / "b", FAILED)]
    assert judge_stability((UNIT,), results, []).outcome == "fails"
    tolerant = msgspec.structs.replace(UNIT, tolerance=1)
    assert judge_stability((tolerant,), results, []).outcome == "holds"


def test_trees_are_not_compared_with_each_other(tmp_path: Path) -> None:
    untouched, reference = build_result(tmp_path / "a", FAILED), build_result(tmp_path / "b", PASSED)
    assert judge_stability((UNIT,), [untouched], [reference]).outcome == "holds"


def test_a_block_of_the_reference_in_the_snapshot_is_a_leak(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(
        "as in\ndef measure(text):\n    columns = sum(width_of(each) for each in text)\n"
        "    return max(columns, minimum_of(text))\nold = 2\n"
    )
    (finding,) = find_leaked_reference(build_loaded(), tmp_path)
    assert finding.startswith("notes.txt holds 4 lines that the reference adds")


def test_single_lines_and_moved_blocks_are_no_leak(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("def measure(text):\n    pass\n")
    assert find_leaked_reference(build_loaded(), tmp_path) == []
    block = "".join(
        f"{sign}a line of some length that is only moved {n}\n" for sign in "-+" for n in range(3)
    )
    header = "diff --git a/m b/m\nindex 1111111..2222222 100644\n--- a/m\n+++ b/m\n@@ -1,3 +1,3 @@\n"
    moved = f"{header}{block}".encode()
    lines = "".join(f"a line of some length that is only moved {n}\n" for n in range(3))
    (tmp_path / "m").write_text(lines)
    assert find_leaked_reference(build_loaded(reference=moved), tmp_path) == []


def test_a_hidden_test_in_the_snapshot_is_a_leak_and_a_visible_one_is_not(tmp_path: Path) -> None:
    hidden = msgspec.structs.replace(UNIT, files=(Overlay(source="checks/unit", target="acceptance"),))
    visible = msgspec.structs.replace(
        UNIT, id="regression", files=(Overlay(source="checks/old", target="acceptance"),), baseline="pass"
    )
    pins = tuple(
        FilePin(path=path, digest=digest_bytes(text))
        for path, text in (("checks/old/test_a.py", b"old"), ("checks/unit/test_b.py", b"new"))
    )
    loaded = replace(
        build_loaded(hidden, visible), files=pins, inventories={"unit": Inventory(fail_to_pass=("a",))}
    )
    (tmp_path / "test_a.py").write_bytes(b"old")
    assert find_leaked_oracle(loaded, tmp_path) == []
    (tmp_path / "found.py").write_bytes(b"new")
    (finding,) = find_leaked_oracle(loaded, tmp_path)
    assert finding.startswith("found.py is the oracle file checks/unit/test_b.py")


def test_checks_are_reordered_as_far_as_their_needs_allow() -> None:
    first = msgspec.structs.replace(UNIT, id="first", needs=("make",))
    second = msgspec.structs.replace(UNIT, id="second", needs=("make",))
    loaded = build_loaded(BUILD, first, second)
    other = reorder_checks(loaded)
    assert other is not None
    assert other.lock is not None
    assert loaded.lock is not None
    assert [check.id for check in other.contract.checks] == ["make", "second", "first"]
    assert other.lock.version_id != loaded.lock.version_id
    assert reorder_checks(build_loaded(BUILD, first)) is None


def test_a_check_that_fails_spares_those_after_it_and_what_must_turn_comes_first() -> None:
    kept = msgspec.structs.replace(UNIT, id="kept", needs=("make",), baseline="pass")
    noted = msgspec.structs.replace(UNIT, id="noted", needs=("make",), is_mandatory=False)
    turning = msgspec.structs.replace(UNIT, id="turning", needs=("make",), baseline="fail")
    loaded = build_loaded(BUILD, kept, noted, turning)
    other = end_at_failure(loaded)
    assert [(check.id, check.needs) for check in other.contract.checks] == [
        ("make", ()),
        ("turning", ("make",)),
        ("kept", ("make", "turning")),
        ("noted", ("make", "turning", "kept")),
    ]
    assert other.lock is not None
    assert loaded.lock is not None
    assert other.lock.version_id != loaded.lock.version_id


@pytest.mark.parametrize("ecosystem", [None, "python", "javascript", "c", "rust"])
def test_another_set_of_cheats_is_another_procedure(
    monkeypatch: pytest.MonkeyPatch, ecosystem: str | None
) -> None:
    before = _procedure.build_procedure_digest(ecosystem)
    assert before == _procedure.build_procedure_digest(ecosystem)
    monkeypatch.setattr(_procedure, "build_cheats", lambda scene: build_cheats(scene)[:-1])
    assert _procedure.build_procedure_digest(ecosystem) != before
    monkeypatch.undo()
    monkeypatch.setattr(_procedure, "PROCEDURE", _procedure.PROCEDURE + 1)
    assert _procedure.build_procedure_digest(ecosystem) != before


@pytest.mark.parametrize("ecosystem", ["python", "javascript", "c", "rust"])
def test_the_procedure_covers_every_payload_of_a_language(ecosystem: str) -> None:
    tried = {
        cheat.name for cheat in build_cheats(_procedure._build_scene(ecosystem)) if isinstance(cheat, Cheat)
    }
    folder = Path(read_scene.__code__.co_filename).parent / "payloads" / _FOLDERS[ecosystem]
    assert {path.stem for path in folder.glob("*.txt")} & {*TRICKS} <= tried


def test_an_oversized_patch_breaks_the_limit_and_nothing_else() -> None:
    policy = Policy(writable=("!docs/**", "src/**"), max_lines_changed=100)
    change = read_change(build_oversized_patch(policy))
    (file,) = change.files
    assert file.path == "src/oversized.txt"
    assert file.added_count >= 50_000
    assert {violation.rule for violation in check_change(change, policy)} == {"change_size"}


@pytest.mark.parametrize("old", ["", "one", "one\n", "one\ntwo\n\x0cthree\r\n", "a\u2028b\n"])
@pytest.mark.parametrize("new", ["one\nmore", "two\n", None])
def test_patches_apply_to_what_they_were_made_from(tmp_path: Path, old: str, new: str | None) -> None:
    (tmp_path / "file.txt").write_bytes(old.encode())
    patch = build_patch({"file.txt": old}, {"file.txt": new, "fresh/file": "text\n"})
    arguments = ["git", "apply", "--whitespace=nowarn", "-"]
    variables = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(arguments, cwd=tmp_path, input=patch, check=True, env=variables)
    assert (tmp_path / "fresh" / "file").read_text() == "text\n"
    assert (tmp_path / "file.txt").exists() == (new is not None)
    if new is not None:
        assert (tmp_path / "file.txt").read_bytes() == new.encode()


def test_cheats_that_live_in_a_module_touch_what_is_allowed_and_nothing_else(tmp_path: Path) -> None:
    for path in ("pkg/__init__.py", "pkg/core.py", "tests/test_core.py", "setup.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x = 1\n")
    contract = msgspec.structs.replace(
        build_contract(policy=Policy(writable=("pkg/**",))), ecosystem="python"
    )
    scene = read_scene(contract, tmp_path)
    assert scene.module == "pkg/__init__.py"
    for cheat in build_cheats(scene):
        if isinstance(cheat, Cheat) and cheat.variant == "module":
            assert cheat.script is None
            assert [file.path for file in read_change(cheat.patch).files] == ["pkg/__init__.py"]


@pytest.mark.parametrize("target", [".", "./", "acceptance", "./acceptance//", "acceptance/test_a.py"])
def test_folders_of_hidden_tests_are_named_as_patches_name_them(tmp_path: Path, target: str) -> None:
    check = msgspec.structs.replace(UNIT, files=(Overlay(source="checks/test_a.py", target=target),))
    scene = read_scene(build_contract((check,)), tmp_path)
    assert scene.oracle_folders == (("acceptance",) if "acceptance" in target else ("",))


@pytest.mark.parametrize("ecosystem", ["", "python", "javascript", "c", "rust"])
@pytest.mark.parametrize("target", [".", "tests", "tests/test_known.py"])
def test_every_cheat_applies_whatever_the_snapshot_has_already(
    tmp_path: Path, ecosystem: str, target: str
) -> None:
    steering = ("conftest.py", "pytest.ini", "pytest.py", "sitecustomize.py", "tests/conftest.py", ".npmrc")
    building = ("start.cjs", "GNUmakefile", "start.h", "src/assert.h", "build.rs", ".cargo/config.toml")
    sources = ("src/code.py", "src/code.js", "src/code.c", "src/code.rs", "runner.sh", "tests/test_known.py")
    odd = ('tests/test_"quoted".py', "tests/test_\ttab.js", "tests/test_ünï code.py")
    for path in (*steering, *building, *sources, *odd):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("def test_before():\n    assert before\n")
    (tmp_path / "package.json").write_text("{}\n")
    check = msgspec.structs.replace(UNIT, files=(Overlay(source="checks/tests", target=target),))
    contract = build_contract((check,), policy=Policy(writable=("**",)))
    scene = read_scene(msgspec.structs.replace(contract, ecosystem=ecosystem or None), tmp_path)
    variables = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    for cheat in build_cheats(scene):
        if isinstance(cheat, Cheat) and cheat.script is None:
            read_change(cheat.patch)
            arguments = ["git", "apply", "--check", "-"]
            subprocess.run(arguments, cwd=tmp_path, input=cheat.patch, check=True, env=variables)


@pytest.mark.parametrize("ecosystem", ["", "python", "javascript", "c", "rust"])
def test_every_trick_is_either_made_or_explained(ecosystem: str) -> None:
    scene = Scene(
        ecosystem=ecosystem, module=None, files={}, tests=(), oracle_folders=(), results=("junit.xml",)
    )
    built = build_cheats(scene)
    assert [(cheat.name, cheat.variant) for cheat in built] == [
        (name, variant) for name in TRICKS for variant in ("open", "module")
    ]
    assert all(cheat.reason for cheat in built if isinstance(cheat, NotApplicable))
    assert {cheat.name for cheat in built if isinstance(cheat, Cheat)} >= {"path-trojan"}


def test_a_cheat_that_was_accepted_fails_the_contract() -> None:
    refused = CheatTrial(name="early-exit", variant="open", outcome="refused", verdict="failure")
    accepted = CheatTrial(name="skip-all", variant="module", outcome="accepted", verdict="success")
    assert judge_cheats([refused]).outcome == "holds"
    item = judge_cheats([refused, accepted])
    assert item.outcome == "fails"
    assert item.findings[0].startswith("skip-all (module) was accepted")
    assert judge_cheats([]).outcome == "not-applicable"


@pytest.mark.parametrize("outcome", [FAILED, HUNG])
def test_a_change_that_no_check_has_seen_was_not_tried(tmp_path: Path, outcome: CheckOutcome) -> None:
    run = ScoreRun(tmp_path / "broken", build_contract())
    run.end_acting()
    run.apply(outcome)
    assert read_result(tmp_path, run.finish()).untried
    assert build_result(tmp_path / "judged", FAILED).untried is None
    assert build_result(tmp_path / "hanging", HUNG).untried is None


def test_a_cheat_whose_change_does_not_apply_shows_nothing() -> None:
    refused = CheatTrial(name="early-exit", variant="open", outcome="refused", verdict="failure", run="a")
    left_out = CheatTrial(name="skip-all", variant="open", outcome="not-tried", reason="not quick")
    assert judge_cheats([refused, left_out]).outcome == "holds"
    broken = msgspec.structs.replace(left_out, reason="the change cannot be read", run="b")
    item = judge_cheats([refused, broken])
    assert (item.outcome, item.runs) == ("fails", ("a", "b"))
    assert item.findings[0].startswith("skip-all (open) was not tried (the change cannot be read)")


def build_twin_result(
    place: Path, plain: CheckOutcome, twins: CheckOutcome | None, *survived: str
) -> TrialResult:
    run = ScoreRun(place, build_contract((UNIT,)))
    run.end_acting()
    run.apply()
    run.check(UNIT, plain)
    if twins is not None:
        run.twins(UNIT, twins, survived=survived)
    return read_result(place, run.finish())


def test_a_twin_that_passes_on_the_reference_is_a_finding_of_twins(tmp_path: Path) -> None:
    result = build_twin_result(tmp_path / "a", PASSED, FAILED, "test_left_right")
    twins = judge_twins(build_loaded(UNIT), [result])
    expected = "unit: test_left_right passes on the reference though meant to be wrong: make the expectation"
    assert (twins.outcome, twins.findings) == ("fails", (f"{expected} wrong for certain",))
    (finding,) = judge_reference([result]).findings
    assert finding.endswith(": see `twins`")


@pytest.mark.parametrize(
    ("plain", "twins", "outcome"),
    [
        (PASSED, PASSED, "holds"),
        (PASSED, None, "fails"),
        (PASSED, FAILED, "fails"),
        (PASSED, HUNG, "fails"),
        (FAILED, FAILED, "not-applicable"),
        (FAILED, PASSED, "not-applicable"),
        (FAILED, None, "not-applicable"),
    ],
)
def test_twins_hold_only_where_they_were_seen_to(
    tmp_path: Path, plain: CheckOutcome, twins: CheckOutcome | None, outcome: str
) -> None:
    result = build_twin_result(tmp_path / "a", plain, twins)
    assert judge_twins(build_loaded(UNIT), [result]).outcome == outcome


@pytest.mark.parametrize(
    ("outcome", "way"), [(FAILED, "mend the check or the reference"), (HUNG, "repotrial sandbox exec")]
)
def test_a_reference_that_does_not_pass_comes_with_the_way_on(
    tmp_path: Path, outcome: CheckOutcome, way: str
) -> None:
    (finding,) = judge_reference([build_result(tmp_path / "a", outcome)]).findings
    assert way in finding


@pytest.mark.parametrize(("count", "outcome"), [(3, "note"), (7, "holds")])
def test_few_twins_that_look_like_their_tests_are_noted(tmp_path: Path, count: int, outcome: str) -> None:
    tests = "".join(f"def test_{number}():\n    assert answer() == {number}\n\n\n" for number in range(count))
    tests += "def test_unlike():\n    assert answer() == other()\n"
    (tmp_path / "test_a.py").write_text(tests)
    check = msgspec.structs.replace(UNIT, files=(Overlay(source="test_a.py", target="test_a.py"),))
    loaded = replace(
        build_loaded(check),
        directory=tmp_path,
        files=(FilePin(path="test_a.py", digest=digest_bytes(tests.encode())),),
        inventories={
            "unit": Inventory(fail_to_pass=tuple(f"test_a::test_{n}" for n in (*range(count), "unlike")))
        },
    )
    item = judge_strength(loaded)
    assert item.outcome == outcome
    assert bool(item.findings) == (outcome == "note")
    if item.findings:
        assert item.message == "3 of the 7 wanted twins cannot be told from their tests"
        assert "(test_0, test_1, test_2), test_unlike have none" in item.findings[0]
    assert judge_strength(build_loaded()).outcome == "not-applicable"


@pytest.mark.parametrize(
    ("count", "right", "wrong", "message"),
    [
        (8, "answer(),", "answer(), 99 +", "8 or more"),
        (4, "answer(),", "answer(), 99 +", "4 of the 7 wanted"),
        (8, "test('", "test.wrong('", "0 of the 7 wanted"),  # not inside of any test
    ],
)
def test_few_wrong_expectations_of_an_author_that_can_stand_among_right_ones_are_noted(
    tmp_path: Path, count: int, right: str, wrong: str, message: str
) -> None:
    tests = "".join(f"test('{test}', () => {{\n  same(answer(), {test})\n}})\n" for test in range(count))
    texts = {"right/a.mjs": tests, "wrong/a.mjs": tests.replace(right, wrong)}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check = msgspec.structs.replace(
        UNIT,
        files=(Overlay(source="right", target="tests"),),
        negative=(Overlay(source="wrong", target="tests"),),
    )
    loaded = replace(
        build_loaded(check),
        directory=tmp_path,
        files=tuple(FilePin(path=name, digest=digest_bytes(text.encode())) for name, text in texts.items()),
        inventories={"unit": Inventory(fail_to_pass=tuple(str(number) for number in range(count)))},
    )
    item = judge_strength(loaded)
    assert item.message == f"{message} twins cannot be told from their tests"
    assert item.outcome == ("holds" if message == "8 or more" else "note")
    assert bool(item.findings) == (item.outcome == "note")
