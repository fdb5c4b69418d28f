"""Whether others took a sandbox's processor time: the rules on figures that were measured, and on attacks."""

from __future__ import annotations

import msgspec
import pytest

from repotrial._core.pressure import ProcessorPressure
from repotrial.judging import Supply, judge_supply, may_be_starvation
from repotrial.trace import CheckOutcome, Errored, Failed, Passed

WALL_US = 10_000_000


def build(
    *, own: float, others: float, full: float | None = None, waited: float | None = None, sandboxes: int = 1
) -> ProcessorPressure:
    """On two processors; shares of the time that the command ran."""
    return ProcessorPressure(
        wall_us=WALL_US,
        processors=2,
        sandboxes=sandboxes,
        own_us=round(own * WALL_US),
        others_us=round(others * WALL_US),
        stalled_us=None if full is None else round(full * WALL_US),
        waited_us=None if waited is None else round(waited * WALL_US),
    )


CASES: dict[str, tuple[float, float, float, float, Supply]] = {
    # own and other use of the processors, stalls of the group, waiting of threads as sampled, what it was
    "alone, one thread": (0.99, 0.02, 0.01, 0.01, "fair"),
    "ten busy processes of its own, nothing else": (1.98, 0.02, 0.09, 8.1, "fair"),
    "one thread beside ten foreign ones": (0.17, 1.83, 0.83, 0.82, "starved"),
    "four of its own beside ten foreign ones": (0.57, 1.43, 0.73, 3.4, "starved"),
    "it sleeps beside ten foreign ones": (0.01, 1.99, 0.00, 0.01, "fair"),
    "children with short lives beside ten foreign ones": (0.17, 1.83, 0.83, 0.25, "starved"),
}


@pytest.mark.parametrize("case", CASES)
def test_with_a_group_the_kernel_tells_who_was_starved(case: str) -> None:
    own, others, full, _, expected = CASES[case]
    assert judge_supply([build(own=own, others=others, full=full)]) == expected


@pytest.mark.parametrize("case", CASES)
def test_without_a_group_use_and_waiting_together_tell_it(case: str) -> None:
    own, others, _, waited, expected = CASES[case]
    assert judge_supply([build(own=own, others=others, waited=waited)]) == expected


def test_its_own_processor_hog_is_not_starved_by_others() -> None:
    """Thousands of threads of its own wait for each other; others have no more than what is left to them."""
    for sandboxes in (1, 2):
        hog = build(own=1.98 / sandboxes, others=2 - 1.98 / sandboxes, waited=400.0, sandboxes=sandboxes)
        assert judge_supply([hog]) == "fair"


def test_a_program_that_steps_back_by_itself_excuses_nothing() -> None:
    """With `nice` it waits whenever anything else runs: by its own choice."""
    for pressure in (build(own=0.1, others=1.9, full=0.9), build(own=0.1, others=1.9, waited=0.9)):
        assert judge_supply([pressure]) == "starved"
        assert judge_supply([msgspec.structs.replace(pressure, is_yielding=True)]) == "unclear"


def test_what_ended_at_once_did_not_end_for_want_of_time() -> None:
    short = msgspec.structs.replace(build(own=0.1, others=1.9, full=0.9), wall_us=900_000, stalled_us=890_000)
    assert judge_supply([short]) == "fair"


def test_what_was_not_measured_is_not_fair() -> None:
    assert judge_supply([]) == "unclear"
    assert judge_supply([None]) == "unclear"
    assert judge_supply([build(own=1, others=0, full=0), None]) == "unclear"
    assert judge_supply([build(own=0.1, others=1.9)]) == "unclear", "nothing looked at its threads"


def test_of_several_commands_one_that_was_starved_decides() -> None:
    assert judge_supply([build(own=1, others=0, full=0), build(own=0.1, others=1.9, full=0.9)]) == "starved"


@pytest.mark.parametrize(
    ("outcome", "is_negative", "expected"),
    [
        (Errored(reason="timeout", detail=""), False, True),
        (Errored(reason="timeout", detail=""), True, True),
        (Failed(summary="two tests fail"), False, True),
        (Failed(summary="a twin survived"), True, False),
        (Passed(), False, False),
    ],
)
def test_a_wrong_expectation_that_was_met_is_never_blamed_on_the_machine(
    outcome: CheckOutcome, *, is_negative: bool, expected: bool
) -> None:
    assert may_be_starvation(outcome, "starved", is_negative=is_negative) is expected
    assert not may_be_starvation(outcome, "fair", is_negative=is_negative)
    assert not may_be_starvation(outcome, "unclear", is_negative=is_negative)
