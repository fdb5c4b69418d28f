"""Images that try to leave their directory, to lie about their bytes, or to fill the disk."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tarfile
from pathlib import Path

import pytest

from repotrial._core.errors import ContractError
from repotrial.contract import DockerArchive, ImageArchive, ImageLayout
from repotrial.environment import Store, list_store
from repotrial.environment._images._blobs import ImageLimits
from repotrial.environment._images._open import open_image
from support.errors import raises_code
from support.images import ImageBuilder, build_tar, directory, file, hard_link, special, symlink


class Target:
    """A directory that no image may touch, beside the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        (path / "secret").write_text("before")

    def verify_untouched(self) -> None:
        assert [path.name for path in self.path.iterdir()] == ["secret"]
        assert (self.path / "secret").read_text() == "before"
        assert (self.path / "secret").stat().st_nlink == 1


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path / "outside")


def _refused(
    builder: ImageBuilder,
    tmp_path: Path,
    error: str,
    *,
    limits: ImageLimits | None = None,
) -> None:
    store = Store(tmp_path / "store")
    builder.write_archive(tmp_path / "image.tar")
    with raises_code(error):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store, limits=limits or ImageLimits())
    assert list_store(store) == []
    left = [path.name for path in (tmp_path / "store" / "images").glob("*") if path.suffix != ".lock"]
    assert left == []


@pytest.mark.parametrize("name", ["/etc/evil", "//etc/evil", "/"])
def test_absolute_member_name_is_refused(tmp_path: Path, target: Target, name: str) -> None:
    _refused(ImageBuilder().add_layer(file(name, b"x")), tmp_path, "image-unsafe-member")
    target.verify_untouched()


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "a/..", "..", "./../outside/secret"])
def test_member_name_with_dot_dot_is_refused(tmp_path: Path, target: Target, name: str) -> None:
    _refused(ImageBuilder().add_layer(file(name, b"x")), tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_dot_dot_in_a_pax_header_is_refused(tmp_path: Path, target: Target) -> None:
    info, content = file("harmless", b"x")
    info.pax_headers = {"path": "../../../outside/secret"}
    _refused(ImageBuilder().add_layer((info, content)), tmp_path, "image-unsafe-member")
    target.verify_untouched()


@pytest.mark.parametrize("form", ["{}", "../../../../outside"])
def test_write_through_a_planted_symlink_is_refused(tmp_path: Path, target: Target, form: str) -> None:
    link = symlink("way", form.format(target.path))
    _refused(ImageBuilder().add_layer(link, file("way/secret", b"x")), tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_write_through_a_symlink_of_an_earlier_layer_is_refused(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(symlink("way", str(target.path)))
    _refused(builder.add_layer(file("way/new", b"x")), tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_directory_member_through_a_symlink_is_refused(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(symlink("way", str(target.path)), directory("way/new"))
    _refused(builder, tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_file_over_a_symlink_replaces_the_link_not_its_target(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(symlink("a", str(target.path / "secret")), file("a", b"x"))
    builder.write_archive(tmp_path / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    assert (image.rootfs / "a").read_bytes() == b"x"
    assert not (image.rootfs / "a").is_symlink()
    target.verify_untouched()


def test_chain_of_symlinks_is_not_followed(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(
        directory("d"), symlink("d/one", ".."), symlink("two", "d/one/.."), file("two/x", b"x")
    )
    _refused(builder, tmp_path, "image-unsafe-member")
    target.verify_untouched()


@pytest.mark.parametrize("name", ["way/.wh.secret", "way/.wh..wh..opq"])
def test_whiteout_through_a_symlink_removes_nothing_outside(
    tmp_path: Path, target: Target, name: str
) -> None:
    builder = ImageBuilder().add_layer(symlink("way", str(target.path))).add_layer(file(name))
    builder.write_archive(tmp_path / "image.tar")
    with contextlib.suppress(ContractError):  # refused, or applied to the link itself
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    target.verify_untouched()


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh.", "a/.wh..."])
def test_whiteout_of_the_parent_directory_is_refused(tmp_path: Path, target: Target, name: str) -> None:
    _refused(ImageBuilder().add_layer(directory("a"), file(name)), tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_opaque_mark_over_a_symlink_replaces_the_link(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(symlink("way", str(target.path)))
    builder.add_layer(directory("way"), file("way/.wh..wh..opq"), file("way/new"))
    builder.write_archive(tmp_path / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    assert [path.name for path in (image.rootfs / "way").iterdir()] == ["new"]
    target.verify_untouched()


@pytest.mark.parametrize(
    "linked",
    [
        "/etc/passwd",
        "../../../outside/secret",
        "never-there",
        "no/such/place",
        "way/secret",
        "a-directory",
        "l",
    ],
)
def test_hard_link_to_anything_but_a_file_of_the_image_is_refused(
    tmp_path: Path, target: Target, linked: str
) -> None:
    builder = ImageBuilder().add_layer(
        symlink("way", str(target.path)),
        symlink("l", str(target.path / "secret")),
        directory("a-directory"),
        hard_link("stolen", linked),
    )
    _refused(builder, tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_hard_link_over_its_own_target_is_refused(tmp_path: Path) -> None:
    _refused(ImageBuilder().add_layer(file("a"), hard_link("a", "a")), tmp_path, "image-unsafe-member")
    _refused(ImageBuilder().add_layer(file("a/b"), hard_link("a", "a/b")), tmp_path, "image-unsafe-member")


def test_member_that_replaces_the_root_is_refused(tmp_path: Path, target: Target) -> None:
    info, _ = symlink(".", str(target.path))
    _refused(ImageBuilder().add_layer((info, b"")), tmp_path, "image-unsafe-member")
    target.verify_untouched()


def test_file_where_a_directory_is_needed_is_refused(tmp_path: Path) -> None:
    _refused(ImageBuilder().add_layer(file("a"), file("a/b")), tmp_path, "image-unsafe-member")


def test_mount_point_planted_as_symlink_is_replaced_not_followed(tmp_path: Path, target: Target) -> None:
    builder = ImageBuilder().add_layer(
        symlink("workspace", str(target.path)),
        symlink("opt", str(target.path)),
        symlink("etc", str(target.path)),
    )
    builder.write_archive(tmp_path / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    assert not (image.rootfs / "workspace").is_symlink()
    target.verify_untouched()


def test_blob_in_a_layout_that_is_a_fifo_does_not_hang(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a"))
    descriptor = builder.add_manifest()
    builder.write_layout(tmp_path / "layout", descriptor)
    blob = tmp_path / "layout/blobs/sha256" / builder.layers[0]["digest"][7:]
    blob.unlink()
    os.mkfifo(blob)
    with raises_code("image-unreadable"):
        open_image(
            ImageLayout(path="layout", digest=descriptor["digest"]),
            base=tmp_path,
            store=Store(tmp_path / "store"),
        )


# -- bytes that are not those promised ---------------------------------------------------------------------


def test_exchanged_layer_is_detected(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a", b"honest"))
    builder.blobs[builder.layers[0]["digest"]] = gzip.compress(build_tar([file("a", b"forged")]), mtime=0)
    _refused(builder, tmp_path, "image-digest-mismatch")


def test_layer_of_the_same_size_with_one_byte_changed_is_detected(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a", b"honest"), compression="plain")
    digest = builder.layers[0]["digest"]
    builder.blobs[digest] = builder.blobs[digest].replace(b"honest", b"forged")
    _refused(builder, tmp_path, "image-digest-mismatch")


def test_unpacked_digest_is_verified_as_well(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a", b"honest"))
    builder.diff_ids[0] = "sha256:" + "0" * 64
    _refused(builder, tmp_path, "image-digest-mismatch")


def test_wrong_size_is_detected(tmp_path: Path) -> None:
    for change in (-1, 1):
        builder = ImageBuilder().add_layer(file("a", b"honest"))
        builder.layers[0]["size"] += change
        _refused(builder, tmp_path, "image-digest-mismatch")


@pytest.mark.parametrize("part", ["config", "manifest"])
def test_exchanged_document_is_detected(tmp_path: Path, part: str) -> None:
    builder = ImageBuilder().add_layer(file("a"))
    descriptor = builder.add_manifest()
    digest = descriptor["digest"]
    if part == "config":
        digest = json.loads(builder.blobs[digest])["config"]["digest"]
    builder.blobs[digest] += b" "
    builder.write_archive(tmp_path / "image.tar", descriptor)
    with raises_code("image-digest-mismatch"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))


def test_missing_layer_digest_in_the_configuration_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a")).add_layer(file("b"))
    builder.diff_ids.pop()
    _refused(builder, tmp_path, "image-unreadable")


def test_digest_that_is_a_path_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a"))
    builder.layers[0]["digest"] = "sha256:../../../outside/secret"
    _refused(builder, tmp_path, "image-unreadable")


def test_index_that_contains_itself_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder()
    inner = b"{}"
    for _ in range(6):
        item = builder.describe(inner, "image.index")
        item["mediaType"] = "application/vnd.oci.image.index.v1+json"
        inner = json.dumps({"manifests": [item]}).encode()
    item = builder.describe(inner, "image.index")
    item["mediaType"] = "application/vnd.oci.image.index.v1+json"
    builder.write_archive(tmp_path / "image.tar", item)
    with raises_code("image-unreadable"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"null", b"{", b'{"manifests": 3}', b"[" * 100_000, b"\xff\xfe"]
)
def test_garbage_in_place_of_an_index_is_refused(tmp_path: Path, document: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(build_tar([file("index.json", document)]))
    with raises_code("image-unreadable"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))


@pytest.mark.parametrize("keep", [100, 600, -1500, -512])
def test_layer_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    plain = build_tar([file("a", b"x" * 3000), file("b", b"y" * 3000)]).rstrip(b"\0")
    _refused(ImageBuilder().add_layer(tar=plain[:keep]), tmp_path, "image-unreadable")


def test_damaged_header_does_not_pass_for_the_end(tmp_path: Path) -> None:
    plain = bytearray(build_tar([file("a", b"x"), file("b", b"y")]))
    plain[1024 + 150] ^= 0xFF  # the checksum of the second header
    _refused(ImageBuilder().add_layer(tar=bytes(plain)), tmp_path, "image-unreadable")


# -- bombs -------------------------------------------------------------------------------------------------


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("zeros", bytes(30_000_000)))
    assert len(builder.blobs[builder.layers[0]["digest"]]) < 100_000
    _refused(builder, tmp_path, "image-too-large", limits=ImageLimits(total_bytes=10_000_000))


def test_bomb_spread_over_layers_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder()
    for number in range(5):
        builder.add_layer(file("same", bytes(3_000_000)), file(f"{number}"))
    _refused(builder, tmp_path, "image-too-large", limits=ImageLimits(total_bytes=10_000_000))


def test_bomb_behind_the_end_of_the_archive_is_refused(tmp_path: Path) -> None:
    plain = build_tar([file("a")]) + bytes(30_000_000)
    limits = ImageLimits(total_bytes=1_000_000, entries=100)
    _refused(ImageBuilder().add_layer(tar=plain), tmp_path, "image-too-large", limits=limits)


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(*(file(f"f{number}") for number in range(200)))
    _refused(builder, tmp_path, "image-too-large", limits=ImageLimits(entries=100))


def test_sparse_bomb_is_refused(tmp_path: Path) -> None:
    info, content = file("sparse", b"0\n".ljust(512, b"\0"))
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "sparse",
        "GNU.sparse.realsize": str(2**50),
    }
    _refused(ImageBuilder().add_layer((info, content)), tmp_path, "image-too-large")


def test_huge_pax_header_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    info, content = file("a", b"x")
    info.pax_headers = {"comment": "x" * 20_000_000}
    _refused(ImageBuilder().add_layer((info, content)), tmp_path, "image-too-large")


def test_negative_size_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.size = -512
    header = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    _refused(ImageBuilder().add_layer(tar=header), tmp_path, "image-too-large")


def test_bottomless_directory_is_refused(tmp_path: Path) -> None:
    _refused(ImageBuilder().add_layer(file("d/" * 300 + "f")), tmp_path, "image-too-large")


def test_name_too_long_for_any_file_system_is_refused(tmp_path: Path) -> None:
    _refused(ImageBuilder().add_layer(file("n" * 300)), tmp_path, "image-unreadable")


def test_too_many_layers_are_refused(tmp_path: Path) -> None:
    builder = ImageBuilder()
    for number in range(4):
        builder.add_layer(file(f"{number}"))
    _refused(builder, tmp_path, "image-unreadable", limits=ImageLimits(layers=3))


# -- the store ---------------------------------------------------------------------------------------------


def test_changed_file_in_an_unpacked_image_is_detected(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("bin/sh", b"honest"))
    builder.write_archive(tmp_path / "image.tar")
    store = Store(tmp_path / "store")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)
    shell = image.rootfs / "bin/sh"
    times = shell.stat()
    shell.chmod(0o755)
    shell.write_bytes(b"forged")
    shell.chmod(0o444)
    os.utime(shell, ns=(times.st_atime_ns, times.st_mtime_ns))
    with raises_code("store-tampered"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)


# -- archives of Docker's: no digest but that of the configuration ------------------------------------------


def _open_docker(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    (tmp_path / "docker.tar").write_bytes(build_tar(members))
    open_image(
        DockerArchive(path="docker.tar"),
        base=tmp_path,
        store=Store(tmp_path / "store"),
        limits=ImageLimits(total_bytes=1 << 20, entries=1000),
    )


def _list_docker_members(tmp_path: Path, builder: ImageBuilder) -> list[tuple[tarfile.TarInfo, bytes]]:
    path = builder.write_docker_archive(tmp_path / "honest.tar")
    with tarfile.open(path) as archive:
        return [(info, archive.extractfile(info).read()) for info in archive if info.isreg()]  # type: ignore[union-attr]


def _rewrite_index(
    members: list[tuple[tarfile.TarInfo, bytes]], **changes: object
) -> list[tuple[tarfile.TarInfo, bytes]]:
    (index,) = [content for info, content in members if info.name == "manifest.json"]
    entry = {**json.loads(index)[0], **changes}
    rest = [(info, content) for info, content in members if info.name != "manifest.json"]
    return [*rest, file("manifest.json", json.dumps([entry]).encode())]


def test_honest_docker_archive_is_unpacked(tmp_path: Path) -> None:
    _open_docker(tmp_path, _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a"))))


def test_docker_layer_exchanged_for_another_is_detected(tmp_path: Path) -> None:
    members = _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a"), compression="plain"))
    other = build_tar([file("evil", b"x")])
    changed = [
        file(info.name, other) if info.name.endswith("layer.tar") else (info, data) for info, data in members
    ]
    with raises_code("image-digest-mismatch"):
        _open_docker(tmp_path, changed)
    assert list_store(Store(tmp_path / "store")) == []


def test_docker_configuration_under_a_foreign_name_is_detected(tmp_path: Path) -> None:
    members = _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a")))
    changed = [
        file(info.name, data + b" ") if len(info.name) == 69 and info.name.endswith(".json") else (info, data)
        for info, data in members
    ]
    with raises_code("image-digest-mismatch"):
        _open_docker(tmp_path, changed)


@pytest.mark.parametrize("name", ["../outside/secret", "/etc/passwd", "link"])
def test_docker_layer_outside_the_archive_is_not_read(tmp_path: Path, target: Target, name: str) -> None:
    """Neither a name that leads out nor a link in the archive reaches a file of the machine."""
    members = _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a")))
    planted = [*_rewrite_index(members, Layers=[name]), symlink("link", str(target.path / "secret"))]
    with raises_code("image-unreadable", match="found none"):
        _open_docker(tmp_path, planted)
    target.verify_untouched()


def test_docker_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    members = _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a")))
    planted = [*_rewrite_index(members, Layers=["one"]), symlink("one", "two"), symlink("two", "one")]
    with raises_code("image-unreadable", match="found none"):
        _open_docker(tmp_path, planted)


def test_docker_layer_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("zeros", bytes(2 << 20)))
    with raises_code("image-too-large"):
        _open_docker(tmp_path, _list_docker_members(tmp_path, builder))


@pytest.mark.parametrize(
    "index", [b"", b"{}", b"[1]", b"[" * 10_000, b'[{"Config": "x", "Layers": []}]'], ids=range(5)
)
def test_garbage_in_place_of_a_docker_index_is_refused(tmp_path: Path, index: bytes) -> None:
    with raises_code("image-unreadable"):
        _open_docker(tmp_path, [file("manifest.json", index)])


def test_layer_count_that_differs_from_the_configuration_is_refused(tmp_path: Path) -> None:
    members = _list_docker_members(tmp_path, ImageBuilder().add_layer(file("a")))
    with raises_code("image-unreadable", match="digest for each of 0 layers"):
        _open_docker(tmp_path, _rewrite_index(members, Layers=[]))


# -- what a root file system must never hold ---------------------------------------------------------------


def test_setuid_and_setgid_bits_do_not_survive(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("su", b"x", mode=0o6755), directory("d"))
    builder.write_archive(tmp_path / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    assert all(not path.lstat().st_mode & 0o7000 for path in image.rootfs.rglob("*") if not path.is_symlink())


def test_device_nodes_and_fifos_do_not_survive(tmp_path: Path) -> None:
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    members = [special(f"node{number}", kind) for number, kind in enumerate(kinds)]
    ImageBuilder().add_layer(*members).write_archive(tmp_path / "image.tar")
    image = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=Store(tmp_path / "store"))
    assert not list(image.rootfs.glob("node*"))
