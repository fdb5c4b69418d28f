"""Documents of every format, as their writers make them: what is read, and what is refused."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from repotrial.contract import ResultFormat
from repotrial.judging._results._parse import parse_results
from support.errors import raises_code


def _read(text: str, format_: ResultFormat, *, prefix: str = "", name: str = "") -> dict[str, str]:
    results = parse_results(text.encode(), format=format_, prefix=prefix, name=name)
    return {result.id: result.outcome for result in results}


SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="org.AppTest" tests="5" failures="1">
  <properties><property name="java.version" value="21"/></properties>
  <testcase name="adds" classname="org.AppTest" time="1,000.5"/>
  <testcase name="flaky" classname="org.AppTest"><flakyFailure message="once">x</flakyFailure></testcase>
  <testcase name="fails" classname="org.AppTest">
    <failure message="no &amp; never" type="E">stack</failure><rerunFailure message="again"/>
    <system-out>&lt;testcase name="forged"/&gt;</system-out>
  </testcase>
  <testcase name="breaks" classname="org.AppTest"><error message="NPE"/></testcase>
  <testcase name="rests" classname="org.AppTest"><skipped/></testcase>
</testsuite>"""
GTEST = """<testsuites tests="3" failures="0" name="AllTests"><testsuite name="Math" tests="3">
<testcase name="Adds" status="run" result="completed" time="0.002" classname="Math"/>
<testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="Math"/>
<testcase name="Rests" status="run" result="skipped" classname="Math"/>
</testsuite></testsuites>"""
NESTED = """<testsuites><testsuite name="a"><testsuite name="b"><testcase name="deep"/></testsuite>
<error message="set-up of the suite">x</error></testsuite></testsuites>"""


def test_junit_of_surefire_counts_a_flaky_test_as_failed() -> None:
    assert _read(SUREFIRE, "junit") == {
        "org.AppTest::adds": "pass",
        "org.AppTest::flaky": "fail",
        "org.AppTest::fails": "fail",
        "org.AppTest::breaks": "error",
        "org.AppTest::rests": "skip",
    }


def test_junit_of_googletest_knows_disabled_tests() -> None:
    assert _read(GTEST, "junit") == {
        "Math::Adds": "pass",
        "Math::DISABLED_Off": "skip",
        "Math::Rests": "skip",
    }


def test_junit_suites_may_be_nested_and_fail_themselves() -> None:
    assert _read(NESTED, "junit") == {"deep": "pass", "a": "error"}


@pytest.mark.parametrize(
    "text",
    [
        "<testsuites><testsuite><testcase name='a'/></testsuite>",
        "<html><testcase name='a'/></html>",
        "<testsuite><testcase/></testsuite>",
        "<testsuite failures='1'><testcase name='a'/></testsuite>",
        "<testsuite><testcase name='a'><testcase name='b'/></testcase></testsuite>",
        "<!DOCTYPE x [<!ENTITY e 'x'>]><testsuite><testcase name='&e;'/></testsuite>",
        "<testsuite>" + "<testsuite>" * 300 + "</testsuite>" * 301,
        "<?xml version='1.0' encoding='no-such'?><testsuite/>",
    ],
    ids=["cut", "other-root", "no-name", "counted", "case-in-case", "entity", "deep", "encoding"],
)
def test_doubtful_junit_is_refused(text: str) -> None:
    with raises_code("results-unreadable", match="junit results"):
        parse_results(text.encode(), format="junit")


TAP = """TAP version 14
1..6
ok 1 - plain
not ok 2 - broken
  ---
  message: "wrong"
  duration_ms: 12.5
  ...
ok 3 - rests # SKIP no network
not ok 4 - later # TODO write it
    # Subtest: group
    ok 1 - inside
    not ok 2 - a \\# sign
    1..2
not ok 5 - group
noise of the program
ok 6
"""


def test_tap_has_directives_blocks_and_subtests() -> None:
    assert _read(TAP, "tap", prefix="c/") == {
        "c/plain": "pass",
        "c/broken": "fail",
        "c/rests": "skip",
        "c/later": "skip",
        "c/group > inside": "pass",
        "c/group > a # sign": "fail",
        "c/group": "fail",
        "c/6": "pass",
    }


def test_tap_13_has_no_escapes() -> None:
    assert _read("TAP version 13\nok 1 a\\\\b\nok 2 a\\b\n1..2\n", "tap") == {
        "a\\\\b": "pass",
        "a\\b": "pass",
    }


def test_a_tap_program_may_skip_all_its_tests() -> None:
    assert _read("1..0 # SKIP no terminal\n", "tap") == {}


@pytest.mark.parametrize(
    "text",
    [
        "ok 1 - a\n",
        "1..2\nok 1 - a\n",
        "1..1\nok 1 - a\nok 2 - b\n",
        "1..2\nok 1 - a\nok 1 - b\n",
        "ok 1 - a\n1..1\nok 2 - b\n",
        "1..1\n1..1\nok 1 - a\n",
        "1..2\nok 1 - a\nBail out! no disk\n",
        "1..1\nok 1 - a\n  ---\n  x: 1\n",
        "1..1\nok 1 - a\n    ok 1 - inside\n    1..1\n",
        "1..1\n    ok 1 - inside\nok 1 - a\n",
        "TAP version 99\n1..1\nok 1\n",
        "nothing of the kind\n",
        "1..999999999\nok 1\n",
    ],
    ids=lambda text: text.replace("\n", "|"),
)
def test_doubtful_tap_is_refused(text: str) -> None:
    with raises_code("results-unreadable", match="tap results"):
        parse_results(text.encode(), format="tap")


def _go(*events: tuple[str, str, str]) -> str:
    return "\n".join(json.dumps({"Action": a, "Package": p, "Test": t, "Elapsed": 0.5}) for a, p, t in events)


def test_go_events_become_package_and_test() -> None:
    text = _go(
        ("start", "m/a", ""),
        ("run", "m/a", "TestX"),
        ("output", "m/a", "TestX"),
        ("run", "m/a", "TestX/sub"),
        ("pass", "m/a", "TestX/sub"),
        ("pass", "m/a", "TestX"),
        ("skip", "m/a", "TestY"),
        ("pass", "m/a", ""),
        ("fail", "m/b", ""),
        ("run", "m/c", "TestPanics"),
        ("fail", "m/c", ""),
    )
    assert _read(text + "\nFAIL\tm/d [build failed]\nFAIL\n", "go-test-json") == {
        "m/a::TestX/sub": "pass",
        "m/a::TestX": "pass",
        "m/a::TestY": "skip",
        "m/b": "error",
        "m/c::TestPanics": "error",
        "m/d": "error",
    }


@pytest.mark.parametrize(
    "text",
    [
        _go(("run", "m", "TestX"), ("pass", "m", "TestX")),
        _go(("run", "m", "TestX"), ("pass", "m", "")),
        _go(("fail", "m", "TestX"), ("pass", "m", "")),
        _go(("pass", "m", "TestX"), ("pass", "m", ""))[:-5],
        "ok  \tm\t0.1s",
        "[]",
    ],
    ids=["no-package-end", "no-test-end", "contradiction", "cut", "plain-text", "array"],
)
def test_doubtful_go_events_are_refused(text: str) -> None:
    with raises_code("results-unreadable", match="go-test-json results"):
        parse_results(text.encode(), format="go-test-json")


LIBTEST = """
running 4 tests
test m::bad ... FAILED
test m::rests ... ignored, slow
test m::panics - should panic ... ok
test bench_it ... bench:         100 ns/iter (+/- 5)

failures:

---- m::bad stdout ----
test forged ... ok
running 1 test

test result: FAILED. 1 passed; 1 failed; 1 ignored; 1 measured; 0 filtered out; finished in 0.35s

   Doc-tests crate

running 1 test
test src/lib.rs - add (line 5) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
"""


def test_libtest_blocks_are_joined() -> None:
    assert _read(LIBTEST, "libtest") == {
        "m::bad": "fail",
        "m::rests": "skip",
        "m::panics": "pass",
        "bench_it": "pass",
        "src/lib.rs - add (line 5)": "pass",
    }


_ONE = "running 1 test\ntest a ... ok\n"
_RESULT = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s\n"


@pytest.mark.parametrize(
    "text",
    [
        _ONE,
        _RESULT,
        _ONE + "test forged ... ok\n" + _RESULT,
        "running 2 tests\ntest a ... ok\n" + _RESULT,
        _ONE.replace("ok", "FAILED") + _RESULT,
        _ONE + _ONE + _RESULT,
        _ONE + _RESULT.replace("ok.", "FAILED."),
        _ONE + "test result: fine\n",
        "cargo: no tests\n",
    ],
    ids=["no-end", "no-start", "one-more", "one-less", "counts", "twice", "verdict", "summary", "none"],
)
def test_doubtful_libtest_text_is_refused(text: str) -> None:
    with raises_code("results-unreadable", match="libtest results"):
        parse_results(text.encode(), format="libtest")


def test_automake_names_tests_by_their_file() -> None:
    simple = ":test-result: PASS\n:global-test-result: PASS\n:recheck: no\n:copy-in-global-log: no\n"
    lines = (
        "test-result: PASS 1 - a",
        "test-result: XFAIL 2 - b",
        "test-result: ERROR",
        "global-test-result: ERROR",
    )
    several = "".join(f":{line}\n" for line in lines)
    hidden = ":test-result: SKIP\n:global-test-result: FAIL\n"
    assert _read(simple, "automake-trs", name="t/one") == {"t/one": "pass"}
    assert _read(several, "automake-trs", name="x") == {
        "x::1 - a": "pass",
        "x::2 - b": "skip",
        "x::3": "error",
    }
    assert [r.outcome for r in parse_results(hidden.encode(), format="automake-trs", name="x")] == [
        "skip",
        "fail",
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (":test-result: PASS\n", "x"),
        (":test-result: FINE\n:global-test-result: PASS\n", "x"),
        (":test-result: PASS\n:global-test-result: PASS\n", ""),
    ],
)
def test_doubtful_trs_files_are_refused(text: str, name: str) -> None:
    with raises_code("results-unreadable", match="automake-trs results"):
        parse_results(text.encode(), format="automake-trs", name=name)


def _ctrf(statuses: list[str], **changed: int) -> str:
    summary = {word: statuses.count(word) for word in ("passed", "failed", "skipped", "pending", "other")}
    tests = [
        {"name": f"t{index}", "status": status, "duration": 2, "suite": ["a", "b"], "message": "m"}
        for index, status in enumerate(statuses)
    ]
    return json.dumps(
        {
            "results": {
                "tool": {"name": "x"},
                "summary": summary | {"tests": len(tests)} | changed,
                "tests": tests,
            }
        }
    )


def test_ctrf_statuses_become_outcomes() -> None:
    text = _ctrf(["passed", "failed", "skipped", "pending", "other"])
    assert _read(text, "ctrf") == {
        "a > b::t0": "pass",
        "a > b::t1": "fail",
        "a > b::t2": "skip",
        "a > b::t3": "skip",
        "a > b::t4": "error",
    }


@pytest.mark.parametrize(
    "text", [_ctrf(["failed"], failed=0), _ctrf(["passed"], tests=2), _ctrf(["great"]), "{}", "[" * 100_000]
)
def test_doubtful_ctrf_is_refused(text: str) -> None:
    with raises_code("results-unreadable", match="ctrf results"):
        parse_results(text.encode(), format="ctrf")


def test_an_exit_code_has_no_results() -> None:
    assert parse_results(b"anything", format="exit-code") == ()


@pytest.mark.parametrize("format_", ["junit", "tap", "go-test-json", "libtest", "node-test", "ctrf"])
def test_an_empty_document_is_refused(format_: ResultFormat) -> None:
    with raises_code("results-unreadable", match="empty"):
        parse_results(b" \n", format=format_)


EXAMPLES: dict[ResultFormat, str] = {
    "junit": SUREFIRE,
    "tap": TAP,
    "go-test-json": _go(("pass", "m", "TestX"), ("fail", "m", "TestY"), ("fail", "m", "")),
    "libtest": LIBTEST,
    "node-test": TAP,
    "automake-trs": ":test-result: PASS 1 - a\n:test-result: FAIL 2 - b\n:global-test-result: FAIL\n",
    "ctrf": _ctrf(["passed", "failed"]),
}
"""One document of each format with a pass and a failure in it."""


@pytest.mark.parametrize("format_", [name for name in get_args(ResultFormat) if name != "exit-code"])
def test_every_format_has_an_example_with_a_pass_and_a_failure(format_: ResultFormat) -> None:
    assert {"pass", "fail"} <= set(_read(EXAMPLES[format_], format_, name="t").values())
