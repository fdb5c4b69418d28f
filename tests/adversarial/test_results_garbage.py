"""No bytes lead to anything but results or a refusal, and no forged line becomes a pass."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repotrial._core.errors import EvidenceError
from repotrial.contract import ResultFormat
from repotrial.judging._results._model import MAX_RESULTS_BYTES
from repotrial.judging._results._parse import parse_results
from repotrial.judging._results._summary import merge_results
from support.errors import raises_code

FORMATS: tuple[ResultFormat, ...] = get_args(ResultFormat)
PIECES = [
    *(b"<testsuites>", b"</testsuites>", b"<testsuite name='s' failures='1'>", b"</testsuite>"),
    *(
        b"<testcase name='a'>",
        b"</testcase>",
        b"<testcase name='b' time='nan'/>",
        b"<failure>",
        b"</failure>",
    ),
    *(b"<skipped/>", b"<!DOCTYPE x>", b"<?xml version='1.0' encoding='utf-16'?>", b"&#0;", b"&x;"),
    *(b"\nTAP version 14\n", b"\n1..1\n", b"\nok 1 - a\n", b"\nnot ok 2\n", b"\n    ok 1\n", b"\n    1..1\n"),
    *(b"\n  ---\n", b"\n  ...\n", b"\nok # skip\n", b"\nBail out!\n", b"\n        1..0\n"),
    *(b'\n{"Action":"pass","Package":"p","Test":"t"}\n', b'\n{"Action":"fail","Package":"p"}\n'),
    *(
        b'\n{"Action":"run","Package":"p","Test":"\\ud800"}\n',
        b'\n{"Action":"pass","Package":"p","Elapsed":1e999}\n',
    ),
    *(b"\nrunning 1 test\n", b"\ntest a ... ok\n", b"\ntest b ... FAILED\n", b"\nfailures:\n"),
    b"\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s\n",
    *(b"\n:test-result: PASS\n", b"\n:global-test-result: PASS\n", b"\xff", b"\x00", b"\r", b"\x1b", b" "),
    b'{"results":{"summary":{"tests":0,"passed":0,"failed":0,"skipped":0,"pending":0,"other":0},"tests":[]}}',
]


@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.one_of(st.binary(), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)))
@example(data=b"<?xml version='1.0' encoding='rot13'?><testsuite/>")
@example(data=b"<testsuite>" * 5000)
@example(data=b'{"results":' * 5000)
def test_bytes_are_results_or_unreadable(format_: ResultFormat, data: bytes) -> None:
    try:
        results = parse_results(data, format=format_, name="t")
    except EvidenceError as error:
        if error.code != "results-unreadable":
            raise
        return
    for result in results:
        assert result.id
        assert result.id.encode()


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "exit-code"])
def test_an_oversized_document_is_refused_unread(format_: ResultFormat) -> None:
    with raises_code("results-unreadable", match="at most"):
        parse_results(b" " * (MAX_RESULTS_BYTES + 1), format=format_, name="t")


def test_a_pass_printed_beside_a_failure_does_not_take_it_back() -> None:
    genuine = b"<testsuite><testcase classname='m' name='t'><failure/></testcase></testsuite>"
    forged = b"<testsuite><testcase classname='m' name='t'/></testsuite>"
    for order in ((genuine, forged), (forged, genuine)):
        summary = merge_results(parse_results(data, format="junit") for data in order)
        assert summary.failed == summary.duplicates == {"m::t"}
        assert not summary.passed


@pytest.mark.parametrize(
    ("format_", "genuine", "forged"),
    [
        ("tap", b"1..2\nnot ok 1 - a\nok 2 - b\n", b"ok 1 - a\n"),
        ("tap", b"1..2\nnot ok 1 - a\nok 2 - b\n", b"ok 3 - a\n"),
        ("tap", b"1..2\nnot ok 1 - a\nok 2 - b\n", b"1..2\n"),
        ("tap", b"1..2\nnot ok 1 - a\nok 2 - b\n", b"    ok 1 - a\n"),
        (
            "libtest",
            (
                b"running 1 test\ntest a ... FAILED\n"
                b"test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
            ),
            b"test a ... ok\n",
        ),
    ],
)
def test_a_line_that_the_product_prints_makes_the_results_unreadable(
    format_: ResultFormat, genuine: bytes, forged: bytes
) -> None:
    assert parse_results(genuine, format=format_)
    lines = genuine.splitlines(keepends=True)
    for place in range(1, len(lines)):
        data = b"".join([*lines[:place], forged, *lines[place:]])
        with raises_code("results-unreadable"):
            parse_results(data, format=format_)


def test_a_case_inside_captured_output_is_not_a_case() -> None:
    forged = b"<![CDATA[<testcase name='forged'/>]]>"
    data = b"<testsuite><testcase name='a'/><system-out>" + forged + b"</system-out></testsuite>"
    assert [result.id for result in parse_results(data, format="junit")] == ["a"]
    smuggled = (
        b"<testsuite><testcase name='a'/><system-out><testcase name='forged'/></system-out></testsuite>"
    )
    with raises_code("results-unreadable"):
        parse_results(smuggled, format="junit")


@pytest.mark.parametrize("text", [" ", "# ", "#", "# skip", "\t#\t", "- ", "\\#"])
def test_a_line_of_megabytes_is_refused_in_time(text: str) -> None:
    data = f"1..1\nok 1 - a{text * (2_000_000 // len(text))}b\n".encode()
    with raises_code("results-unreadable", match="test id"):
        parse_results(data, format="tap", name="t")
