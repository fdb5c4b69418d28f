"""The sample of runs that people look at: drawn from the plan alone, at the registered chance."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from repotrial.analysis import Pilot, PlannedRow, ReviewSampling, check_pilot
from repotrial.change import read_change
from repotrial.contract import DependencyPolicy
from repotrial.policy import find_dependency_files
from support.pilots import write_pilot

DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def pilot(tmp_path: Path) -> Pilot:
    found, problems = check_pilot((write_pilot(tmp_path) / "pilot.toml").read_bytes())
    assert found is not None
    assert problems == []
    return found


def _rows(count: int) -> list[PlannedRow]:
    return [
        PlannedRow(
            order=place,
            stage=2,
            block=0,
            task="t",
            stratum="s",
            arm="strong",
            replicate=0,
            run_id=f"run-{place}",
        )
        for place in range(count)
    ]


def _draw(pilot: Pilot, share: str, rows: list[PlannedRow]) -> frozenset[str]:
    review = msgspec.structs.replace(pilot.review, sample_share=Decimal(share))
    return ReviewSampling(msgspec.structs.replace(pilot, review=review), rows, DIGEST).sample


def test_the_sample_has_the_registered_share_and_is_always_the_same(pilot: Pilot) -> None:
    rows = _rows(5000)
    sample = _draw(pilot, "0.1", rows)
    # 0.1 of 5,000: three standard errors are 64.
    assert abs(len(sample) - 500) < 64
    assert _draw(pilot, "0.1", rows) == sample
    assert _draw(pilot, "0", rows) == frozenset()
    assert len(_draw(pilot, "1", rows)) == 5000


def test_a_larger_share_keeps_what_a_smaller_one_had(pilot: Pilot) -> None:
    rows = _rows(300)
    assert _draw(pilot, "0.1", rows) < _draw(pilot, "0.3", rows)


def test_blind_names_differ_and_do_not_tell_the_run(pilot: Pilot) -> None:
    sampling = ReviewSampling(pilot, [], DIGEST)
    names = {sampling.name_case(row.run_id) for row in _rows(1000)}
    assert len(names) == 1000
    assert not any("run" in name for name in names)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("requirements.txt", True),
        ("sub/requirements/dev.in", True),
        ("package.json", True),
        ("Cargo.lock", True),
        ("uv.lock", True),
        ("deps.custom", True),
        ("src/requirements.py", False),
        ("README.md", False),
    ],
)
@pytest.mark.parametrize("kind", ["changed", "deleted"])
def test_every_change_of_a_manifest_or_a_lock_is_found(path: str, kind: str, *, is_one: bool) -> None:
    ends = {
        "changed": ("", f"b/{path}", "+left-pad==2.0\n", "1"),
        "deleted": ("deleted", "/dev/null", "", "0"),
    }
    word, target, added, count = ends[kind]
    head = f"diff --git a/{path} b/{path}\n" + ("deleted file mode 100644\n" if word else "")
    index = "index 1111111..0000000" if word else "index 1111111..2222222 100644"
    start = "0" if word else "1"
    text = f"{head}{index}\n--- a/{path}\n+++ {target}\n@@ -1,1 +{start},{count} @@\n-left-pad==1.0\n{added}"
    policy = DependencyPolicy(manifests=("*.custom",))
    assert find_dependency_files(read_change(text.encode()), policy) == ((path,) if is_one else ())
