"""Whoever wrote the run, the page is ours: nothing becomes markup, hides text, or grows without bound."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.report import build_run_page
from repotrial.report._render import render_template, show_value
from repotrial.trace import Briefing as BriefingEvent
from repotrial.trace import Failed, TestIds
from support.pages import Page, read_page
from support.score_runs import CHECKS, UNIT, ScoreRun, build_contract, write_run

HOSTILE = (
    "<script>alert(1)</script></style></title></pre></table>"
    '"><img src=//example.org/x onerror=alert(1)>'
    "'--><!-- {{ 7*7 }} {% raw %} &#60;b&#62;"
    "\x1b[31mred\x1b]8;;http://example.org\x07link \u202egnp.exe\u202c"
    "\u2066\u2069\u200b\u200f\x00\x7f\x85\u2028"
)
PRINTED = b"</pre></details></td></tr><script>alert(1)</script>\n" + HOSTILE.encode() + b"\xff\n"
"""What a program prints to get out of where it is shown."""
QUOTED = HOSTILE.replace("\x00", "").encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
LINE = HOSTILE.replace("\n", "").encode()

PATCH = b"".join(
    [
        b'diff --git "a/x%b" "b/x%b"\n' % (QUOTED.replace(b"/", b"_"), QUOTED.replace(b"/", b"_")),
        b"new file mode 100644\n",
        b"index 0000000..2222222\n",
        b"--- /dev/null\n",
        b'+++ "b/x%b"\n' % QUOTED.replace(b"/", b"_"),
        b"@@ -0,0 +1,2 @@ %b\n" % LINE,
        b"+%b\n" % LINE,
        b"+eval(input())  # %b\n" % LINE,
    ]
)


def hostile_run(root: Path, patch: bytes = PATCH) -> Path:
    title = "".join(character for character in HOSTILE if character >= " " and character != "\x7f")[:200]
    contract = msgspec.structs.replace(build_contract(), title=title)
    run = ScoreRun(root, contract, patch=patch)
    body = run.builder.writer.body
    run.builder.add(BriefingEvent(issue=body(b"x"), obligations=(), delivered=body(HOSTILE.encode())))
    run.builder.tool(arguments=HOSTILE, output=HOSTILE.encode())
    run.builder.program(stdout=PRINTED, stderr=PRINTED)
    run.alert("network-attempt", monitor=f"m{HOSTILE}")
    run.alert(f"rule{HOSTILE}")
    run.end_acting(rationale=HOSTILE, code=f"c{HOSTILE}")
    run.apply(rejected_paths=(HOSTILE,), conflict_paths=(f"c{HOSTILE}",), stripped_paths=(HOSTILE,))
    for check in CHECKS:
        if check is UNIT:
            run.check(
                check,
                Failed(summary=HOSTILE),
                failing=TestIds.build([HOSTILE, "t" * 60_000]),
                output=PRINTED,
            )
        else:
            run.check(check, collisions=(HOSTILE,), removed=(HOSTILE,), output=HOSTILE.encode())
    return run.finish()


def check_page(html: str) -> Page:
    page = read_page(html)
    assert len(page.scripts) == 1, "our own, by its digest"
    assert "<img" not in html.lower()
    assert all(re.fullmatch(r"#[a-z]+[0-9]*", link) for link in page.links)
    return page


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    html = build_run_page(hostile_run(tmp_path / "run"))
    page = check_page(html)
    assert page.text.count("<script>alert(1)</script>") > 10, "it is shown, as what it is"
    assert "{{ 7*7 }}" in page.text, "templates do not run what a run says"
    assert r"\x1b[31mred" in page.text
    assert r"\u202egnp.exe" in page.text
    assert page.text.count("</pre></details></td></tr><script>alert(1)</script>") == 3


def test_the_name_of_a_directory_is_hostile_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / 'a"><script>x<\n\u202e\udcff b')
    page = check_page(build_run_page(run))
    assert r"<script>x<\n\u202e\udcff b" in page.text


def test_a_patch_that_is_none_is_shown_as_found(tmp_path: Path) -> None:
    patch = (
        b"</pre><script>\n@@ -1 +1 @@\n-%b\n+\xff\xfe</td>\ndiff --git nonsense\nGIT binary patch\n" % LINE
    )
    page = check_page(build_run_page(hostile_run(tmp_path / "run", patch)))
    assert "This is no patch as the rules read one" in page.text


@pytest.mark.parametrize("content", [b"<", b"\x1b", b"\xff", "\U000e0001".encode(), b"&"], ids=repr)
def test_a_line_of_ten_megabytes_is_cut(content: bytes, tmp_path: Path) -> None:
    line = content * (10 * 1024 * 1024 // len(content))
    patch = (
        b"diff --git a/x b/x\nnew file mode 100644\nindex 0000000..2222222\n--- /dev/null\n+++ b/x\n"
        b"@@ -0,0 +1 @@\n+%b\n" % line
    )
    html = build_run_page(write_run(tmp_path / "run", patch=patch))
    assert len(html) < 200_000
    assert "MiB more" in check_page(html).text


def test_a_change_of_many_lines_and_files_is_cut_with_a_note(tmp_path: Path) -> None:
    head = b"diff --git a/f%d b/f%d\nnew file mode 100644\nindex 0000000..2222222\n--- /dev/null\n+++ b/f%d\n"
    long = b"@@ -0,0 +1,50000 @@\n" + b"+a line of a generated file <b>\n" * 50_000
    short = b"@@ -0,0 +1 @@\n+x\n"
    parts = [head % (n, n, n) + (long if n == 0 else short) for n in range(1000)]
    html = build_run_page(write_run(tmp_path / "run", patch=b"".join(parts)))
    page = check_page(html)
    assert len(html) < 1_500_000
    assert "1,000 files, +50,999 -0 lines" in page.text
    assert "48,001 lines of this file are left out" in page.text
    assert "700 more files are left out" in page.text


def test_content_that_looks_like_the_head_of_a_file_makes_no_file(tmp_path: Path) -> None:
    patch = (
        b"diff --git a/x b/x\nindex 1111111..2222222 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n"
        b"-diff --git a/y b/y\n+diff --git a/z b/z\n diff --git a/w b/w\n"
    )
    page = check_page(build_run_page(write_run(tmp_path / "run", patch=patch)))
    assert "1 file, +1 -1 lines" in page.text


@given(st.text())
def test_whatever_is_printed_is_one_bounded_printable_line(text: str) -> None:
    shown = str(show_value(text))
    assert shown.isprintable()
    assert len(shown) <= 1000


@given(st.text(alphabet=st.sampled_from("<>&\"'{}%#\\/-!ab \x1b\u202e\n")))
def test_reasons_of_absence_are_escaped(text: str) -> None:
    from repotrial._core.absence import NotComputable, Unknown

    for value in (Unknown(reason=text), NotComputable(reason=text)):
        shown = str(show_value(value))
        inside = shown.removeprefix('<span class="absent">').removesuffix("</span>")
        assert not set(inside) & set("<>\"'\x1b\u202e\n")


def test_a_name_that_a_template_does_not_get_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render_template("run.html.j2")
