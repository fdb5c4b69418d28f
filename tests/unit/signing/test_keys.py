from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from repotrial.signing import PublicKey, SigningKey, parse_public_key
from support.errors import raises_code


def test_a_key_is_made_on_first_use_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "seal.pem"
    first = SigningKey.load(path)
    assert SigningKey.load(path).key_id == first.key_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["seal.pem"]


def test_a_generous_umask_does_not_open_the_key(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        SigningKey.load(tmp_path / "seal.pem")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "seal.pem").stat().st_mode) == 0o600


def test_first_uses_at_the_same_time_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(SigningKey.load, [tmp_path / "seal.pem"] * 16))
    assert len({key.key_id for key in keys}) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_is_refused_with_the_fix(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "seal.pem"
    SigningKey.load(path)
    path.chmod(mode)
    with raises_code("private-file") as caught:
        SigningKey.load(path)
    assert f"chmod 600 {path}" in caught.value.hint


def test_a_linked_key_file_is_refused(tmp_path: Path) -> None:
    SigningKey.load(tmp_path / "seal.pem")
    for target in ("seal.pem", "nowhere"):
        link = tmp_path / f"link-to-{target}"
        link.symlink_to(tmp_path / target)
        with raises_code("private-file"):
            SigningKey.load(link)
    assert not (tmp_path / "nowhere").exists()


def private_pem(key: Ed25519PrivateKey, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="binary"),
        pytest.param(private_pem(Ed25519PrivateKey.generate(), b"password"), id="encrypted"),
        pytest.param(
            generate_private_key(SECP256R1()).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            ),
            id="another algorithm",
        ),
    ],
)
def test_other_content_is_no_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "seal.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with raises_code("bad-signing-key") as caught:
        SigningKey.load(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises_code("signing-key-not-writable", match="file"):
        SigningKey.load(tmp_path / "file" / "seal.pem")


def test_the_public_half_can_be_passed_on(tmp_path: Path) -> None:
    key = SigningKey.load(tmp_path / "seal.pem")
    (tmp_path / "seal.pub").write_text("\n" + key.public_key.pem)
    assert PublicKey.load(tmp_path / "seal.pub") == key.public_key
    assert key.public_key.pem.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert len(key.key_id) == 64
    assert key.key_id in repr(key)


def test_what_is_no_public_key_is_refused(tmp_path: Path) -> None:
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in ("", "garbage", pem, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        with raises_code("bad-public-key"):
            parse_public_key(text)
    with raises_code("bad-public-key"):
        PublicKey.load(tmp_path / "absent")
    with raises_code("bad-public-key"):
        PublicKey.load(tmp_path)


def test_a_private_key_in_place_of_a_public_one_is_refused_with_a_warning(tmp_path: Path) -> None:
    SigningKey.load(tmp_path / "seal.pem")
    with raises_code("bad-public-key") as caught:
        PublicKey.load(tmp_path / "seal.pem")
    assert "never pass a private key on" in caught.value.hint


def test_secrets_of_a_key_are_its_own_and_come_back(tmp_path: Path) -> None:
    key, other = SigningKey.load(tmp_path / "key"), SigningKey.load(tmp_path / "other")
    found = [key.derive_secret(*parts) for parts in ((b"ab", b"c"), (b"a", b"bc"), (b"abc",), ())]
    assert len(set(found)) == len(found)
    assert SigningKey.load(tmp_path / "key").derive_secret(b"abc") == key.derive_secret(b"abc")
    assert other.derive_secret(b"abc") != key.derive_secret(b"abc")
