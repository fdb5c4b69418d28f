from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from repotrial.isolation import build_label
from repotrial.isolation._label import parse_label


def test_labels_are_unique_and_say_who_made_them() -> None:
    names = {build_label() for _ in range(10)}
    assert len(names) == 10
    for name in names:
        label = parse_label(name)
        assert label is not None
        assert label.pid == os.getpid()
        assert not label.is_abandoned


@pytest.mark.parametrize(
    "name", ["repotrial", "repotrial-1", "repotrial-xyz-1-2-3-4", "x" + "repotrial-00000000-1-2-3-4", ""]
)
def test_names_of_others_are_nobodys(name: str) -> None:
    assert parse_label(name) is None


def test_what_a_dead_process_made_is_abandoned() -> None:
    code = "from repotrial.isolation._label import build_label; print(build_label())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    label = parse_label(done.stdout.strip())
    assert label is not None
    assert label.is_abandoned


def test_a_later_process_with_the_same_number_is_somebody_else() -> None:
    label = parse_label(build_label())
    assert label is not None
    assert msgspec.structs.replace(label, started_ticks=label.started_ticks - 1).is_abandoned


def test_of_another_namespace_nothing_is_claimed() -> None:
    label = parse_label(build_label())
    assert label is not None
    assert not msgspec.structs.replace(label, namespace=1, started_ticks=1).is_abandoned


def test_an_earlier_boot_is_over() -> None:
    label = parse_label(build_label())
    assert label is not None
    assert msgspec.structs.replace(label, boot="00000000").is_abandoned
