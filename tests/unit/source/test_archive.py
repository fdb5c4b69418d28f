"""Archives: the supported kinds, and what is made of their members."""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from repotrial.contract import ArchiveRepository
from repotrial.source import materialize_snapshot, resolve_snapshot
from support.errors import raises_code
from support.repositories import make_tar, make_zip


def take(path: Path, strip: int = 0) -> list[tuple[str, str]]:
    """Unpack beside the archive; paths and contents, with a mark for modes and links."""
    into = path.parent / (path.name + ".out")
    materialize_snapshot(
        ArchiveRepository(source=path.name, strip_components=strip), base=path.parent, into=into
    )
    found = []
    for item in sorted(into.rglob("*")):
        name = item.relative_to(into).as_posix()
        if item.is_symlink():
            found.append((name, f"-> {item.readlink()}"))
        elif item.is_file():
            mark = "*" if item.stat().st_mode & stat.S_IXUSR else ""
            found.append((name + mark, item.read_text()))
    return found


def member(
    name: str, *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, target: str = ""
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, kind, target
    return info


MEMBERS = [
    (member("./", mode=0o755, kind=tarfile.DIRTYPE), b""),
    (member("./src", mode=0o700, kind=tarfile.DIRTYPE), b""),
    (member("./src//a.txt", mode=0o600), b"a"),
    (member("./run", mode=0o700), b"r"),
    (member("./" + "long/" * 40 + "name"), b"l"),
    (member("./link", kind=tarfile.SYMTYPE, target="src/a.txt"), b""),
    (member("./empty"), b""),
]
EXPECTED = [
    ("empty", ""),
    ("link", "-> src/a.txt"),
    ("long/" * 40 + "name", "l"),
    ("run*", "r"),
    ("src/a.txt", "a"),
]


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        ("a.tar", ""),
        ("a.tar.gz", "gz"),
        ("a.TGZ", "gz"),
        ("a.tar.bz2", "bz2"),
        ("a.tar.xz", "xz"),
        ("a.txz", "xz"),
    ],
)
@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_every_kind_of_tar_is_read(tmp_path: Path, name: str, compression: str, layout: int) -> None:
    make_tar(tmp_path / name, MEMBERS, compression=compression, format=layout)
    assert take(tmp_path / name) == EXPECTED


def test_two_xz_streams_are_one(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", MEMBERS)
    data = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(data[:700]) + lzma.compress(data[700:]) + bytes(8))
    assert take(tmp_path / "a.tar.xz") == EXPECTED


def zip_member(name: str, *, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.create_system = 3
    return info


def test_zip_members_keep_modes_and_links(tmp_path: Path) -> None:
    make_zip(
        tmp_path / "a.zip",
        [
            (zip_member("top/", mode=stat.S_IFDIR | 0o755), b""),
            (zip_member("top/run", mode=stat.S_IFREG | 0o755), b"r"),
            (zip_member("top/link", mode=stat.S_IFLNK | 0o777), b"run"),
            (zip_member("top/plain", mode=0), b"p"),
            (zip_member("top/ünï"), b"u"),
        ],
    )
    assert take(tmp_path / "a.zip", strip=1) == [
        ("link", "-> run"),
        ("plain", "p"),
        ("run*", "r"),
        ("ünï", "u"),
    ]


def test_names_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", [(member("\udcff\udcfe"), b"x")], format=tarfile.GNU_FORMAT)
    materialize_snapshot(ArchiveRepository(source="a.tar"), base=tmp_path, into=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["\udcff\udcfe"]


def test_stripping_more_than_there_is_is_refused(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", [(member("top", kind=tarfile.DIRTYPE), b""), (member("file"), b"x")])
    with raises_code("archive-unreadable", match="file"):
        resolve_snapshot(ArchiveRepository(source="a.tar", strip_components=1), base=tmp_path)


def test_an_unknown_kind_names_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "a.rar").write_bytes(b"x")
    with raises_code("archive-unreadable", match=r"\.tar\.xz"):
        resolve_snapshot(ArchiveRepository(source="a.rar"), base=tmp_path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.zip"])
@pytest.mark.parametrize("content", [b"", b"not an archive", b"x" * 700])
def test_what_is_no_archive_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with raises_code("archive-unreadable"):
        resolve_snapshot(ArchiveRepository(source=name), base=tmp_path)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", [(zip_member("a"), b"x")])
    data = bytearray((tmp_path / "a.zip").read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + offset] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    with raises_code("archive-unreadable", match="encrypted"):
        resolve_snapshot(ArchiveRepository(source="a.zip"), base=tmp_path)


def test_a_wrong_checksum_in_a_zip_is_found(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zip_member("a"), b"content")
    (tmp_path / "a.zip").write_bytes(buffer.getvalue().replace(b"content", b"CONTENT"))
    with raises_code("archive-unreadable", match="CRC"):
        resolve_snapshot(ArchiveRepository(source="a.zip"), base=tmp_path)
