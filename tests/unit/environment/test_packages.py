"""The machine's way to package indexes: what is passed on, what is not."""

from __future__ import annotations

from pathlib import Path

from repotrial.environment import load_index_settings
from repotrial.environment._packages import PACKAGE_INDEX_UNREACHABLE, Symptom, verify_built
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
