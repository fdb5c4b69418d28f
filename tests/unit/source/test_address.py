"""Which source strings are understood, and what becomes of the others."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import ContractError
from repotrial.contract import TRANSPORTS
from repotrial.source._address import LocalAddress, RemoteAddress, join_address, parse_address, render_address
from support.errors import raises_code


@pytest.mark.parametrize(
    ("source", "protocol"),
    [
        ("https://example.org/a/b.git", "https"),
        ("HTTPS://example.org/a/b.git", "https"),
        ("ssh://git@example.org:2222/a/b.git", "ssh"),
        ("git@example.org:a/b.git", "ssh"),
        ("git://127.0.0.1:9418/a", "git"),
    ],
)
def test_remote_sources_are_understood(tmp_path: Path, source: str, protocol: str) -> None:
    expected = RemoteAddress(url=source, protocol=protocol)
    assert parse_address(source, base=tmp_path, protocols=TRANSPORTS) == expected
    assert render_address(expected) == source
    with raises_code("protocol-refused", match=protocol):
        parse_address(source, base=tmp_path, protocols=set(TRANSPORTS) - {protocol})


def test_relative_paths_start_at_the_contract(tmp_path: Path) -> None:
    address = parse_address("./repo.bundle", base=tmp_path, protocols=())
    assert address == LocalAddress(path=tmp_path.resolve() / "repo.bundle", boundary=tmp_path.resolve())


def test_a_file_url_needs_the_file_transport(tmp_path: Path) -> None:
    assert parse_address("file:///srv/a%20b", base=tmp_path, protocols=["file"]) == LocalAddress(
        path=Path("/srv/a b")
    )
    with raises_code("protocol-refused"):
        parse_address("file:///srv/a", base=tmp_path, protocols=["https"])
    for refused in ("file://host/srv/a", "file:///srv/%00", "file:///srv/a%0ab"):
        with raises_code("source-refused"):
            parse_address(refused, base=tmp_path, protocols=["file"])


@pytest.mark.parametrize("source", ["../repo", "a/../../repo", "/etc", "link/repo"])
def test_paths_out_of_the_contract_directory_are_refused(tmp_path: Path, source: str) -> None:
    base = tmp_path / "contract"
    base.mkdir()
    (base / "link").symlink_to(tmp_path)
    with raises_code("source-outside"):
        parse_address(source, base=base, protocols=TRANSPORTS)


def test_authors_may_name_any_path(tmp_path: Path) -> None:
    address = parse_address("..", base=tmp_path, protocols=(), is_confined=False)
    assert address == LocalAddress(path=tmp_path.resolve().parent)


@pytest.mark.parametrize(
    ("url", "parent", "expected"),
    [
        ("../lib.git", "https://example.org/group/app.git", "https://example.org/group/lib.git"),
        ("./lib.git", "https://example.org/group/app", "https://example.org/group/app/lib.git"),
        ("../../other/lib", "ssh://git@example.org/group/app", "ssh://git@example.org/other/lib"),
        ("../lib", "git@example.org:group/app", "git@example.org:group/lib"),
        ("https://example.net/x", "https://example.org/group/app", "https://example.net/x"),
    ],
)
def test_submodule_urls_start_from_the_superproject(url: str, parent: str, expected: str) -> None:
    start = RemoteAddress(url=parent, protocol="https" if parent.startswith("https") else "ssh")
    assert render_address(join_address(url, parent=start, protocols=TRANSPORTS)) == expected


def test_submodule_urls_cannot_climb_past_the_host() -> None:
    start = RemoteAddress(url="https://example.org/app", protocol="https")
    with raises_code("source-refused"):
        join_address("../../x", parent=start, protocols=TRANSPORTS)


@pytest.mark.parametrize("url", ["/etc", "file:///etc", "x/y"])
def test_submodules_cannot_name_places_on_this_machine(tmp_path: Path, url: str) -> None:
    start = LocalAddress(path=tmp_path, boundary=tmp_path)
    with raises_code("protocol-refused"):
        join_address(url, parent=start, protocols=TRANSPORTS)


def test_submodules_of_a_local_repository_stay_beside_the_contract(tmp_path: Path) -> None:
    start = LocalAddress(path=tmp_path / "app", boundary=tmp_path)
    assert join_address("../lib", parent=start, protocols=()) == LocalAddress(
        path=tmp_path / "lib", boundary=tmp_path
    )
    with raises_code("source-outside"):
        join_address("../../lib", parent=start, protocols=TRANSPORTS)


SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    "source",
    [
        f"https://user:{SECRET}@example.org/a",
        f"https://{SECRET}@example.org/a",
        f"ssh://git:{SECRET}@example.org/a",
        f"https://example.org/a?access_token={SECRET}",
        f"https://example.org/a#{SECRET}",
        f"https://x:{SECRET}@[::1/a",
        f"https://x:{SECRET}@host:99999999/a",
        f"http://x:{SECRET}@example.org/a",
        f"ext::sh -c {SECRET}",
        f"file://x:{SECRET}@/a",
    ],
)
def test_credentials_are_refused_and_never_repeated(tmp_path: Path, source: str) -> None:
    for protocols in (TRANSPORTS, ()):
        with pytest.raises(ContractError) as caught:
            parse_address(source, base=tmp_path, protocols=protocols)
        assert SECRET not in str(caught.value.to_dict())


def test_credentials_have_their_own_error(tmp_path: Path) -> None:
    with raises_code("source-has-credentials"):
        parse_address("https://user@example.org/a", base=tmp_path, protocols=["https"])


@given(source=st.text(max_size=40))
def test_no_text_ends_in_a_traceback(source: str) -> None:
    with contextlib.suppress(ContractError):
        address = parse_address(source, base=Path("/nowhere"), protocols=TRANSPORTS)
        assert not render_address(address).startswith("-")
