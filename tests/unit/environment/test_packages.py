"""The machine's way to package indexes: what is passed on, what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import RepoTrialError
from repotrial.environment import load_index_settings, parse_requirements
from repotrial.environment._packages import (
    PACKAGE_INDEX_UNREACHABLE,
    Symptom,
    render_requirements,
    verify_built,
)
from repotrial.environment._process import FinishedProgram
from support.errors import raises_code


def test_pip_configuration_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    configuration = tmp_path / ".config/pip/pip.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(
        "[global]\nindex-url = https://user.example/simple\nextra-index-url =\n    https://a.example\n"
        "    https://b.example\nno-binary = :all:\nuser = true\n[install]\nretries = 7\n"
    )
    settings = load_index_settings({"PIP_RETRIES": "9", "PIP_TARGET": "/x"}, home=tmp_path)
    assert settings.pip["PIP_INDEX_URL"] == "https://user.example/simple"
    assert settings.pip["PIP_EXTRA_INDEX_URL"] == "https://a.example https://b.example"
    assert settings.pip["PIP_RETRIES"] == "9"
    assert not {"PIP_NO_BINARY", "PIP_USER", "PIP_TARGET"} & set(settings.pip)


def test_pip_configuration_can_be_switched_off(tmp_path: Path) -> None:
    settings = load_index_settings(
        {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "https://x.example"}, home=tmp_path
    )
    assert settings.pip == {"PIP_INDEX_URL": "https://x.example"}


def test_broken_pip_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    with raises_code("package-build-failed", match=r"pip\.conf"):
        load_index_settings({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}, home=tmp_path)


def test_npm_configuration_keeps_what_concerns_the_registry(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text(
        "registry=https://r.example/\n@scope:registry = https://s.example/\n"
        "//r.example/:_authToken=${TOKEN}\nignore-scripts=false\nscript-shell=/bin/evil\n"
        "; a comment\nomit=dev\n"
    )
    settings = load_index_settings(
        {"TOKEN": "t", "npm_config_cafile": "/ca", "npm_config_prefix": "/x"},
        home=tmp_path,
        node_prefix=tmp_path,
    )
    assert settings.npm == {
        "registry": "https://r.example/",
        "@scope:registry": "https://s.example/",
        "//r.example/:_authToken": "t",
        "cafile": "/ca",
    }


def test_only_proxies_and_certificates_pass_for_both(tmp_path: Path) -> None:
    variables = {"https_proxy": "p", "NO_PROXY": "n", "SSL_CERT_FILE": "c", "AWS_SECRET": "s", "PATH": "x"}
    assert set(load_index_settings(variables, home=tmp_path).transport) == {
        "https_proxy",
        "NO_PROXY",
        "SSL_CERT_FILE",
    }


def test_failures_get_the_name_of_their_first_symptom() -> None:
    symptoms = (Symptom(pattern="unreachable", error=PACKAGE_INDEX_UNREACHABLE),)
    failed = FinishedProgram(status=1, stdout=b"", stderr=b"ERROR: \x1b[31m unreachable")
    with raises_code("package-index-unreachable") as caught:
        verify_built(failed, "pip", symptoms)
    assert "\x1b" not in caught.value.message
    with raises_code("package-build-failed"):
        verify_built(FinishedProgram(status=1, stdout=b"", stderr=b""), "pip", symptoms)
    verify_built(FinishedProgram(status=0, stdout=b"", stderr=b"unreachable"), "pip", symptoms)


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
