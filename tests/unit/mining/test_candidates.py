"""Which changes of a history are tried, and in which order."""

from __future__ import annotations

from pathlib import Path

from repotrial.mining import Mine, MinePlan, MineSettings, plan_mine
from repotrial.signing import SigningKey
from support.repositories import RepositoryMaker
from support.trying import build_proving


def _plan(maker: RepositoryMaker, place: Path, *, limit: int = 100) -> MinePlan:
    place.mkdir(exist_ok=True)
    settings = MineSettings(
        source=str(maker.path),
        directory=place / "mine",
        proving=build_proving(place),
        key=SigningKey.load(place / "key"),
        runs=place / "runs",
        limit=limit,
    )
    return plan_mine(settings)


def _start(place: Path) -> RepositoryMaker:
    maker = RepositoryMaker(place / "app")
    maker.commit({"app/one.py": "one = 0\n", "tests/test_one.py": "\n"}, message="Start")
    return maker


def _change(maker: RepositoryMaker, message: str, *paths: str, lines: int = 3) -> None:
    text = "".join(f"line_{number} = {hash(message)}\n" for number in range(lines))
    maker.commit(dict.fromkeys(paths, text), message=message)


def test_a_candidate_changes_code_and_adds_to_tests(tmp_path: Path) -> None:
    maker = _start(tmp_path)
    _change(maker, "Only code", "app/one.py")
    _change(maker, "Only tests", "tests/test_one.py")
    _change(maker, "Docs and tests", "docs/one.md", "README.md", "tests/test_one.py")
    _change(maker, "An example", "examples/one.py", "tests/test_one.py")
    _change(maker, "Both", "app/one.py", "tests/test_one.py")
    maker.commit({"app/one.py": "one = 9\n", "tests/test_one.py": ""}, message="Tests only removed")
    plan = _plan(maker, tmp_path / "place")
    assert [candidate.subject for candidate in plan.todo] == ["Both"]
    assert plan.commits == 7


def test_reverts_what_they_revert_duplicates_and_giants_are_left_out_each_with_its_reason(
    tmp_path: Path,
) -> None:
    maker = _start(tmp_path)
    both = ("app/one.py", "tests/test_one.py")
    _change(maker, "Fix the height", *both)
    _change(maker, "Rewrite all", "app/all.py", "tests/test_all.py", lines=4000)
    _change(maker, "Fix the width of wide characters", *both, lines=5)
    _change(maker, "Fix the width of wide characters", *both, lines=6)
    _change(maker, "Break it", *both)
    broken = maker.git("rev-parse", "HEAD").decode().strip()
    _change(maker, f"Revert 'Break it'\n\nThis reverts commit {broken}.", *both, lines=2)
    plan = _plan(maker, tmp_path / "place")
    assert {candidate.subject for candidate in plan.todo} == {
        "Fix the height",
        "Fix the width of wide characters",
    }
    assert (plan.candidates, plan.left_out) == (6, 4)
    rows = (tmp_path / "place/mine/mine.jsonl").read_text("utf-8")
    for reason in ("revert", "reverted", "near-duplicate", "too-large"):
        assert rows.count(f'"reason":"{reason}"') == 1
    assert Mine(tmp_path / "place/mine").summarize().funnel["tried"] == 0


def test_the_first_candidates_are_spread_over_sizes_and_paths(tmp_path: Path) -> None:
    maker = _start(tmp_path)
    for number in range(12):
        _change(maker, f"Small fix {number}", "app/one.py", "tests/test_one.py")
    _change(maker, "A large one", "app/two.py", "tests/test_one.py", lines=300)
    _change(maker, "A medium one", "web/three.py", "tests/test_one.py", lines=40)
    _change(maker, "Another place", "lib/four.py", "tests/test_one.py")
    plan = _plan(maker, tmp_path / "place", limit=6)
    assert {candidate.size for candidate in plan.todo} == {"small", "medium", "large"}
    assert {candidate.path for candidate in plan.todo} == {"app", "web", "lib"}
    assert len(plan.todo) == 6
    assert plan.seconds > 0
