"""From what runners leave to outcomes: what is a pass, what is a failure, and what says nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from repotrial._core.words import EndCause
from repotrial.contract import Check, Inventory, ResultFile, Runner
from repotrial.judging import RunnerRecord, Twin, judge_negatives, judge_plain, judge_twinned
from repotrial.trace import Errored, Exited, ExitStatus, Failed, NotStarted, Passed, Signaled, TimedOut

INVENTORY = Inventory(fail_to_pass=("t::a",), pass_to_pass=("t::b",))
CHECK = Check(id="unit", gate="acceptance", run="true")
JUNIT = ResultFile(format="junit", path="junit.xml")


def record(
    files: Mapping[str, bytes] | None = None,
    *,
    status: ExitStatus = Exited(code=0),  # noqa: B008 - immutable
    cause: EndCause = "ended",
    results: tuple[ResultFile, ...] = (JUNIT,),
    stdout: bytes = b"",
    length: int | None = None,
) -> RunnerRecord:
    return RunnerRecord(
        runner=Runner(run="true", results=results),
        exit=status,
        cause=cause,
        wall_us=1,
        stdout=stdout,
        stdout_bytes=len(stdout) if length is None else length,
        stderr=b"",
        files=files or {},
    )


def junit(*cases: str) -> dict[str, bytes]:
    text = f"<testsuite>{''.join(cases)}</testsuite>"
    return {"junit.xml": text.encode()}


def case(name: str, inner: str = "") -> str:
    return f'<testcase classname="t" name="{name}">{inner}</testcase>'


def judge(*records: RunnerRecord, check: Check = CHECK) -> Passed | Failed | Errored:
    return judge_plain(check, INVENTORY, records).outcome


def test_every_id_with_an_explicit_pass_and_exit_code_zero_is_a_pass() -> None:
    assert judge(record(junit(case("a"), case("b")))) == Passed()


def test_a_silent_id_of_the_inventory_is_no_pass() -> None:
    outcome = judge(record(junit(case("a"))))
    assert isinstance(outcome, Failed)
    assert "no result of t::b" in outcome.summary


@pytest.mark.parametrize("inner", ["<skipped/>", "<failure/>", "<error/>"])
def test_nothing_but_a_pass_is_a_pass(inner: str) -> None:
    assert isinstance(judge(record(junit(case("a"), case("b", inner)))), Failed)


def test_a_skip_that_the_contract_expects_is_no_failure() -> None:
    check = Check(id="unit", gate="acceptance", run="true", expected_skips=("t::b",))
    assert judge(record(junit(case("a"), case("b", "<skipped/>"))), check=check) == Passed()


def test_passes_with_a_bad_exit_code_are_a_failure() -> None:
    outcome = judge(record(junit(case("a"), case("b")), status=Exited(code=1)))
    assert outcome == Failed(summary="exit code 1")


def test_a_failing_test_that_no_list_names_is_a_failure_whatever_the_exit_code() -> None:
    outcome = judge(record(junit(case("a"), case("b"), case("c", "<failure/>"))))
    assert outcome == Failed(summary="failed: t::c")


def test_an_id_that_is_reported_twice_with_different_outcomes_is_no_pass() -> None:
    outcome = judge(record(junit(case("a"), case("b"), case("b", "<failure/>"))))
    assert isinstance(outcome, Failed)


def test_exit_code_zero_without_results_says_nothing() -> None:
    outcome = judge(record({}))
    assert isinstance(outcome, Errored)
    assert outcome.reason == "crash"


def test_a_torn_results_file_says_nothing() -> None:
    assert isinstance(judge(record({"junit.xml": b"<testsuite><testcase"})), Errored)


@pytest.mark.parametrize(
    ("status", "cause", "reason"),
    [
        (TimedOut(ceiling_us=1), "timeout", "timeout"),
        (Signaled(signal=9), "memory", "resource-exhausted"),
        (Signaled(signal=9), "disk", "resource-exhausted"),
        (Signaled(signal=9), "sandbox-lost", "harness-exception"),
        (Signaled(signal=11), "ended", "crash"),
        (Exited(code=127), "ended", "missing-dependency"),
        (NotStarted(reason="no such program"), "ended", "missing-dependency"),
    ],
)
def test_a_command_that_did_not_come_to_its_end_is_an_error(
    status: ExitStatus, cause: EndCause, reason: str
) -> None:
    outcome = judge(record(junit(case("a"), case("b")), status=status, cause=cause))
    assert isinstance(outcome, Errored)
    assert outcome.reason == reason


def test_results_on_standard_output_must_be_complete() -> None:
    tap = ResultFile(format="tap")
    text = b"1..2\nok 1 - t::a\nok 2 - t::b\n"
    whole = record(results=(tap,), stdout=text)
    cut = record(results=(tap,), stdout=text, length=len(text) + 1)
    assert judge(whole) == Passed()
    assert isinstance(judge(cut), Errored)


def test_every_runner_of_a_check_counts() -> None:
    good = record(junit(case("a"), case("b")))
    assert isinstance(judge(good, record(results=(), status=Exited(code=3))), Failed)


def test_a_check_without_results_is_judged_by_its_exit_code() -> None:
    plain = judge_plain(CHECK, None, [record(results=())])
    assert plain.outcome == Passed()
    assert plain.results_digest is None


def test_an_honest_judge_fails_every_test_with_a_wrong_expectation() -> None:
    failing = record(junit(case("x", "<failure/>"), case("y", "<failure/>")), status=Exited(code=1))
    verdict = judge_negatives([failing])
    assert verdict.outcome == Passed()
    assert verdict.twins is not None
    assert verdict.twins.mixed_in == 2


def test_a_wrong_expectation_that_passes_convicts_the_judge() -> None:
    forged = record(junit(case("x"), case("y", "<failure/>")), status=Exited(code=1))
    verdict = judge_negatives([forged])
    assert isinstance(verdict.outcome, Failed)
    assert verdict.twins is not None
    assert verdict.twins.survived.ids == ("t::x",)


def test_wrong_expectations_that_fail_with_exit_code_zero_convict_the_judge() -> None:
    assert isinstance(judge_negatives([record(junit(case("x", "<failure/>")))]).outcome, Failed)


def test_no_wrong_expectation_at_all_proves_nothing() -> None:
    silent = record(junit(), status=Exited(code=1))
    assert not isinstance(judge_negatives([silent]).outcome, Passed)


FAILURE = "<failure/>"
SKIP = "<skipped/>"
RED = Exited(code=1)
# `a` has a twin that goes by its own name while the real test has another; `b` has none.
TWIN = Twin(path="t.py", original="a", name="a", true_name="z", kind="literal", line=1)


def doubt(*cases: str, check: Check = CHECK, status: ExitStatus = RED) -> Passed | Failed | Errored:
    return judge_twinned(check, INVENTORY, [TWIN], [record(junit(*cases), status=status)]).outcome


def test_an_honest_judge_fails_the_twins_and_passes_the_rest() -> None:
    assert doubt(case("a", FAILURE), case("z"), case("b")) == Passed()
    assert isinstance(doubt(case("a", FAILURE), case("z"), case("b"), status=Exited(code=0)), Failed)


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        ((case("a", SKIP), case("z", SKIP), case("b", SKIP)), "no pass beside the twins: t::b, t::z"),
        ((case("a", FAILURE), case("z"), case("b", SKIP)), "no pass beside the twins: t::b"),
        ((case("a", FAILURE), case("z")), "no pass beside the twins: t::b"),
        ((case("a", FAILURE), case("z", SKIP), case("b")), "no pass beside the twins: t::z"),
        ((case("a"), case("z"), case("b")), "passed though the expectation is wrong"),
        ((case("z"), case("b")), "no result of the twin"),
        ((case("a", FAILURE), case("z"), case("z", FAILURE), case("b")), "failed beside the twins: t::z"),
    ],
    ids=["all-skip", "one-skips", "one-is-silent", "the-pair-skips", "survives", "no-twin", "two-tongues"],
)
def test_who_lets_tests_be_silent_beside_twins_is_not_believed(
    cases: tuple[str, ...], complaint: str
) -> None:
    outcome = doubt(*cases)
    assert isinstance(outcome, Failed)
    assert complaint in outcome.summary


def test_a_skip_that_the_contract_expects_is_none_beside_twins_either() -> None:
    check = Check(id="unit", gate="acceptance", run="true", expected_skips=("t::b",))
    assert doubt(case("a", FAILURE), case("z"), case("b", SKIP), check=check) == Passed()


# Of `p`, the expected value is a parameter: where it is wrong, so is the id.
PARAMETERS = Inventory(fail_to_pass=("t::p[x-1]", "t::p[y-2]"))
PARAMETER_TWIN = Twin(path="t.py", original="p", name="q", true_name="p", kind="literal", line=1)
RIGHT = (case("p[x-1]"), case("p[y-2]"))


def doubt_parameters(*cases: str) -> Passed | Failed | Errored:
    found = record(junit(*RIGHT, *cases), status=RED)
    return judge_twinned(CHECK, PARAMETERS, [PARAMETER_TWIN], [found]).outcome


@pytest.mark.parametrize(
    "wrong",
    [("q[x-2]", "q[y-3]"), ("q[x-1]", "q[y-2]"), ("q[x-2]", "q[y-2]"), ("q[y-2]", "q[z]")],
    ids=["changed", "as-they-are", "one-changed", "one-takes-the-id-of-another"],
)
def test_a_wrong_value_among_the_parameters_speaks_under_its_own_id(wrong: tuple[str, str]) -> None:
    assert doubt_parameters(*(case(name, FAILURE) for name in wrong)) == Passed()


@pytest.mark.parametrize(
    "cases",
    [
        (case("q[x-2]", FAILURE),),
        (case("q[x-1]", FAILURE),),
        (case("q[x-2]", FAILURE), case("q[y-3]", SKIP)),
        (case("q[x-1]", FAILURE), case("q[y-2]", SKIP)),
    ],
    ids=["changed", "as-they-are", "changed-and-skipped", "skipped"],
)
def test_each_parameter_of_a_twin_must_speak(cases: tuple[str, ...]) -> None:
    outcome = doubt_parameters(*cases)
    assert isinstance(outcome, Failed)
    assert "no result of the twin t::q" in outcome.summary


OTHER_TWIN = Twin(path="other.py", original="never", name="nobody", true_name="never", kind="literal", line=1)


def test_a_module_that_is_skipped_as_a_whole_has_no_twins_to_hear() -> None:
    found = record(junit(case("a", FAILURE), case("z"), case("b"), case("other", SKIP)), status=RED)
    assert judge_twinned(CHECK, INVENTORY, [TWIN, OTHER_TWIN], [found]).outcome == Passed()


def test_without_an_inventory_every_twin_must_speak() -> None:
    found = record(junit(case("a", FAILURE), case("z"), case("b")), status=RED)
    outcome = judge_twinned(CHECK, None, [TWIN, OTHER_TWIN], [found]).outcome
    assert isinstance(outcome, Failed)
    assert "no result of the twin nobody" in outcome.summary
