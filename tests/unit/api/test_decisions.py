"""What an operator decides on a run that waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial import api
from support.errors import raises_code


@pytest.mark.parametrize(
    ("reason", "text"), [("Not a code", "because"), ("reviewed", ""), ("a\n", "because")]
)
def test_a_decision_without_a_sound_reason_is_the_operators_mistake(
    tmp_path: Path, reason: str, text: str
) -> None:
    with raises_code("decision-invalid"):
        api.decide_run(tmp_path, is_allowed=True, operator="tester", reason=reason, text=text)
