"""Requirements files with hashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import RepoTrialError
from repotrial.environment import parse_requirements
from repotrial.environment._packages import render_requirements
from support.errors import raises_code

HASH = "--hash=sha256:" + "0" * 64
EXAMPLE = Path(__file__).resolve().parents[3] / "examples/contracts/textkit-wide-chars/requirements.lock"


def test_lock_of_the_example_is_read() -> None:
    names = [item.name for item in parse_requirements(EXAMPLE.read_bytes(), "lock")]
    assert names == ["colorama", "iniconfig", "packaging", "pluggy", "pygments", "pytest"]


def test_all_spellings_of_lockers_are_understood() -> None:
    text = f"""\
# made by a tool
a==1.0 {HASH}  # via b
b[x, y] == 2.0.post1 ; python_version >= "3.11" and sys_platform == 'linux' \\
    {HASH} \\
    --hash=sha512:{"1" * 128}
    # via
    #   c

C.d_e==1!2.0+local \\
    {HASH}
"""
    found = parse_requirements(text.replace("\n", "\r\n").encode(), "lock")
    assert [(item.name, item.extras, item.version) for item in found] == [
        ("a", "", "1.0"),
        ("b", "[x,y]", "2.0.post1"),
        ("C.d_e", "", "1!2.0+local"),
    ]
    assert found[1].marker == "python_version >= \"3.11\" and sys_platform == 'linux'"
    assert len(found[1].hashes) == 2


def test_packages_without_hashes_are_all_named() -> None:
    text = f"a==1.0\nb==2.0 {HASH}\nc==3.0\n"
    with raises_code("package-hash-missing", match="line 1: a; line 3: c"):
        parse_requirements(text.encode(), "lock")


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "--extra-index-url=https://example.org",
        "--find-links /somewhere",
        "--no-binary :all:",
        "--trusted-host example.org",
        "-r other.txt",
        "-c constraints.txt",
        "-e .",
        "./local.whl",
        f"a @ https://example.org/a.whl {HASH}",
        f"a @ file:///etc/passwd {HASH}",
        f"git+https://example.org/a.git {HASH}",
        f"a>=1.0 {HASH}",
        f"a {HASH}",
        f"a==1.* {HASH}",
        "a==1.0 --hash=md5:0123",
        "a==1.0 --hash=sha256:short",
        f"a==1.0 --install-option=x {HASH}",
        f"a==1.0 {HASH} --global-option=x",
        f'a==1.0 ; python_version > "3" --config-settings=x {HASH} --no-binary a',
        "$(touch /tmp/x)",
    ],
)
def test_anything_but_a_pinned_package_is_refused(line: str) -> None:
    with raises_code("package-lock-invalid", match="line 2"):
        parse_requirements(f"ok==1.0 {HASH}\n{line}\n".encode(), "lock")


def test_text_that_is_not_utf_8_is_refused() -> None:
    with raises_code("package-lock-invalid"):
        parse_requirements(b"\xff\xfe", "lock")


@given(st.text(max_size=60))
def test_no_text_gets_options_past_the_parser(text: str) -> None:
    try:
        rendered = render_requirements(parse_requirements(text.encode("utf-8", "replace"), "lock"))
    except RepoTrialError:
        return
    for line in rendered.splitlines():
        assert not line.startswith("-")
        assert line.count(" --") == line.count(" --hash=sha")


def test_rendering_is_one_spelling() -> None:
    first = parse_requirements(f"a==1 {HASH}".encode(), "lock")
    second = parse_requirements(f"# x\na  ==  1 \\\n   {HASH} {HASH}\n".encode(), "lock")
    assert render_requirements(first) == render_requirements(second)
    assert parse_requirements(render_requirements(first).encode(), "lock") == first
