"""OCI images: reading, selecting, unpacking, finding again."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import stat
import tarfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.contract import DockerArchive, ImageArchive, ImageLayout, ImageReference
from repotrial.environment import Store, import_image, list_images, list_store, prune_store, remove_images
from repotrial.environment._images._open import UnpackedImage, open_image
from repotrial.syscalls import machine_platform
from support.accounts import account, is_root, public_directory
from support.errors import raises_code
from support.images import (
    Compression,
    ImageBuilder,
    build_tar,
    directory,
    file,
    hard_link,
    special,
    symlink,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _unpack(builder: ImageBuilder, tmp_path: Path, store: Store) -> UnpackedImage:
    builder.write_archive(tmp_path / "image.tar")
    return open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)


def _listing(rootfs: Path) -> set[str]:
    """Everything but the mount points."""
    made = {"dev", "home", "opt", "opt/repotrial", "proc", "run", "tmp", "workspace", "etc"}
    made |= {f"etc/{name}" for name in ("group", "hostname", "hosts", "passwd", "resolv.conf")}
    return {str(path.relative_to(rootfs)) for path in rootfs.rglob("*")} - made


def test_archive_is_unpacked_with_its_configuration(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(directory("bin"), file("bin/tool", b"#!/bin/sh\n", mode=0o755))
    image = _unpack(builder, tmp_path, store)
    assert image.rootfs == store.root / "images" / image.digest.replace(":", "-") / "rootfs"
    assert (image.rootfs / "bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((image.rootfs / "bin/tool").stat().st_mode) == 0o555
    assert image.config.variables == {"PATH": "/bin:/usr/bin", "LANG": "C"}
    assert (image.config.working_directory, image.config.user) == ("/srv", "app")


def test_layout_and_archive_are_the_same_image(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("a", b"1"))
    builder.write_layout(tmp_path / "layout")
    first = _unpack(builder, tmp_path, store)
    second = open_image(ImageLayout(path="layout", digest=first.digest), base=tmp_path, store=store)
    assert first.entry.is_new
    assert not second.entry.is_new
    assert second.rootfs == first.rootfs


@pytest.mark.parametrize("compression", ["gzip", "plain"])
def test_layers_may_be_compressed_or_not(tmp_path: Path, store: Store, compression: Compression) -> None:
    image = _unpack(ImageBuilder().add_layer(file("a", b"1"), compression=compression), tmp_path, store)
    assert _listing(image.rootfs) == {"a"}


def test_zstd_is_refused_by_name(tmp_path: Path, store: Store) -> None:
    with raises_code("image-compression", match="zstd"):
        _unpack(ImageBuilder().add_layer(file("a"), compression="zstd"), tmp_path, store)
    assert list_store(store) == []


def test_later_layers_win(tmp_path: Path, store: Store) -> None:
    builder = (
        ImageBuilder()
        .add_layer(file("a", b"old"), file("b", b"old"), directory("d"), file("d/x"), symlink("l", "a"))
        .add_layer(file("a", b"new"), directory("b"), file("b/c"), file("d", b"file"), directory("l"))
    )
    image = _unpack(builder, tmp_path, store)
    assert (image.rootfs / "a").read_bytes() == b"new"
    assert (image.rootfs / "d").read_bytes() == b"file"
    assert not (image.rootfs / "l").is_symlink()
    assert _listing(image.rootfs) == {"a", "b", "b/c", "d", "l"}


def test_whiteouts_remove_what_lower_layers_had(tmp_path: Path, store: Store) -> None:
    builder = (
        ImageBuilder()
        .add_layer(file("a"), file("keep"), directory("d"), file("d/x"), file("d/e/f"))
        .add_layer(file(".wh.a"), file(".wh.d"), file(".wh.never-there"), file("no/such/.wh.place"))
    )
    image = _unpack(builder, tmp_path, store)
    assert _listing(image.rootfs) == {"keep"}


@pytest.mark.parametrize("mark_first", [True, False])
def test_opaque_directory_hides_lower_layers_but_not_its_own(
    tmp_path: Path, store: Store, *, mark_first: bool
) -> None:
    mark, own = file("d/.wh..wh..opq"), file("d/new/file", b"2")
    builder = (
        ImageBuilder()
        .add_layer(file("d/old"), file("d/new/old"), file("d/new/file", b"1"))
        .add_layer(directory("d"), *((mark, own) if mark_first else (own, mark)))
    )
    image = _unpack(builder, tmp_path, store)
    assert _listing(image.rootfs) == {"d", "d/new", "d/new/file"}
    assert (image.rootfs / "d/new/file").read_bytes() == b"2"


def test_whiteout_spares_its_own_layer(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("a/old")).add_layer(file("a/new"), file(".wh.a"))
    assert _listing(_unpack(builder, tmp_path, store).rootfs) == {"a", "a/new"}


def test_whiteout_then_same_name_again(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("a", b"1")).add_layer(file(".wh.a")).add_layer(file("a", b"3"))
    assert (_unpack(builder, tmp_path, store).rootfs / "a").read_bytes() == b"3"


def test_hard_links_share_a_file_until_one_name_is_replaced(tmp_path: Path, store: Store) -> None:
    builder = (
        ImageBuilder()
        .add_layer(file("usr/bin/a", b"tool", mode=0o755), hard_link("usr/bin/b", "usr/bin/a"))
        .add_layer(file("usr/bin/b", b"other"))
    )
    rootfs = _unpack(builder, tmp_path, store).rootfs
    assert (rootfs / "usr/bin/a").read_bytes() == b"tool"
    assert (rootfs / "usr/bin/b").read_bytes() == b"other"


def test_duplicate_members_the_last_one_stays(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("a", b"1"), directory("a"), file("a/b"), file("a", b"2"))
    assert (_unpack(builder, tmp_path, store).rootfs / "a").read_bytes() == b"2"


def test_device_nodes_and_fifos_are_skipped_and_noted(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(
        special("null", tarfile.CHRTYPE), special("disk", tarfile.BLKTYPE), special("pipe", tarfile.FIFOTYPE)
    )
    image = _unpack(builder, tmp_path, store)
    assert _listing(image.rootfs) == set()
    assert image.entry.record.facts["skipped"] == ("device: 2", "fifo: 1")


def test_special_bits_and_private_modes_mean_nothing(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("su", mode=0o6755), file("shadow", mode=0o000))
    rootfs = _unpack(builder, tmp_path, store).rootfs
    assert stat.S_IMODE((rootfs / "su").stat().st_mode) == 0o555
    assert stat.S_IMODE((rootfs / "shadow").stat().st_mode) == 0o444


def test_ownership_and_extended_attributes_are_ignored(tmp_path: Path, store: Store) -> None:
    info, content = file("a", b"x")
    info.uid = info.gid = 12345
    info.pax_headers = {"SCHILY.xattr.security.capability": "\x01", "SCHILY.xattr.user.x": "y"}
    rootfs = _unpack(ImageBuilder().add_layer((info, content)), tmp_path, store).rootfs
    assert (rootfs / "a").stat().st_uid == os.geteuid()
    assert os.listxattr(rootfs / "a") == []


def test_long_and_odd_names_survive(tmp_path: Path, store: Store) -> None:
    names = ["d" * 120 + "/" + "e" * 130 + "/f", "naïve \n name", "./dotted//twice"]
    rootfs = _unpack(ImageBuilder().add_layer(*(file(name) for name in names)), tmp_path, store).rootfs
    assert all((rootfs / name).is_file() for name in names)


def test_gnu_sparse_files_come_out_whole(tmp_path: Path, store: Store) -> None:
    """A pax 1.0 sparse member: a map in front of the data, holes between."""
    sparse_map = b"1\n4096\n3\n".ljust(512, b"\0")
    info, content = file("sparse", sparse_map + b"end")
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "sparse",
        "GNU.sparse.realsize": "4099",
    }
    rootfs = _unpack(ImageBuilder().add_layer((info, content)), tmp_path, store).rootfs
    assert (rootfs / "sparse").read_bytes() == bytes(4096) + b"end"


def test_mount_points_take_the_place_of_links(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(
        symlink("tmp", "/outside"), symlink("opt", "/"), symlink("etc/resolv.conf", "../run/resolv.conf")
    )
    rootfs = _unpack(builder, tmp_path, store).rootfs
    for name in ("workspace", "proc", "dev", "tmp", "run", "opt/repotrial"):
        assert stat.S_ISDIR((rootfs / name).lstat().st_mode)
    assert stat.S_ISREG((rootfs / "etc/resolv.conf").lstat().st_mode)


def test_platform_is_chosen_from_an_index(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder(platform="linux/mips").add_layer(file("other"))
    foreign = builder.add_manifest()
    builder.os, builder.architecture = machine_platform().split("/")
    mine = builder.add_layer(file("mine")).add_manifest()
    attestation = {**foreign, "platform": {"os": "unknown", "architecture": "unknown"}}
    inner = builder.describe(json.dumps({"manifests": [foreign, attestation, mine]}).encode(), "image.index")
    inner["mediaType"] = "application/vnd.oci.image.index.v1+json"
    builder.write_archive(tmp_path / "image.tar", inner)
    digest = open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store).digest
    assert digest == mine["digest"]
    for pin in (mine["digest"], inner["digest"]):
        image = ImageReference(reference=f"example/app@{pin}", platform=machine_platform())
        assert open_image(image, base=tmp_path, store=store).digest == digest


def test_image_for_another_machine_is_refused(tmp_path: Path, store: Store) -> None:
    with raises_code("image-platform", match="linux/mips"):
        _unpack(ImageBuilder(platform="linux/mips").add_layer(file("a")), tmp_path, store)


def test_several_images_without_a_pin_are_refused_and_listed(tmp_path: Path, store: Store) -> None:
    builder = ImageBuilder().add_layer(file("a"))
    first = builder.add_manifest()
    second = builder.add_layer(file("b")).add_manifest()
    builder.write_archive(tmp_path / "image.tar", first, second)
    with raises_code("image-platform", match="found 2"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)
    image = open_image(ImageArchive(path="image.tar", digest=first["digest"]), base=tmp_path, store=store)
    assert _listing(image.rootfs) == {"a"}


def test_image_in_a_registry_says_how_to_get_it(tmp_path: Path, store: Store) -> None:
    image = ImageReference(reference="example/app@sha256:" + "0" * 64)
    with raises_code("image-not-stored") as caught:
        open_image(image, base=tmp_path, store=store)
    assert "skopeo copy --preserve-digests docker://example/app@sha256:" in caught.value.hint
    assert "podman save --format oci-archive -o image.tar example/app@sha256:" in caught.value.hint
    assert "repotrial image import image.tar" in caught.value.hint


# -- archives of Docker's ----------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["plain", "gzip"])
@pytest.mark.parametrize("shared_layers", [True, False])
def test_what_docker_saves_is_the_same_tree(
    tmp_path: Path, store: Store, compression: Compression, *, shared_layers: bool
) -> None:
    builder = ImageBuilder().add_layer(file("a", b"1"), file("gone")).add_layer(file(".wh.gone"))
    other = ImageBuilder().add_layer(file("a", b"1"), file("gone"), compression=compression)
    other.add_layer(file(".wh.gone"), compression=compression)
    expected = _unpack(builder, tmp_path, store)
    other.write_docker_archive(tmp_path / "docker.tar", "app:1", shared_layers=shared_layers)
    image = open_image(DockerArchive(path="docker.tar"), base=tmp_path, store=store)
    assert image.entry.record.tree_digest == expected.entry.record.tree_digest
    assert image.config == expected.config
    assert image.digest == expected.entry.record.facts["config_digest"]


def test_docker_archive_is_pinned_by_its_image_id(tmp_path: Path, store: Store) -> None:
    ImageBuilder().add_layer(file("a")).write_docker_archive(tmp_path / "docker.tar")
    digest = open_image(DockerArchive(path="docker.tar"), base=tmp_path, store=store).digest
    pinned = DockerArchive(path="docker.tar", digest=digest)
    assert open_image(pinned, base=tmp_path, store=store).digest == digest
    with raises_code("image-platform", match="found 0 among"):
        open_image(DockerArchive(path="docker.tar", digest="sha256:" + "1" * 64), base=tmp_path, store=store)


def test_each_kind_of_archive_says_what_the_other_is(tmp_path: Path, store: Store) -> None:
    ImageBuilder().add_layer(file("a")).write_docker_archive(tmp_path / "docker.tar")
    ImageBuilder().add_layer(file("a")).write_archive(tmp_path / "oci.tar")
    with raises_code("image-unreadable") as caught:
        open_image(ImageArchive(path="docker.tar"), base=tmp_path, store=store)
    assert 'image = "docker-archive:docker.tar"' in caught.value.hint
    with raises_code("image-unreadable") as caught:
        open_image(DockerArchive(path="oci.tar"), base=tmp_path, store=store)
    assert 'image = "oci:oci.tar"' in caught.value.hint


# -- the images that are kept ------------------------------------------------------------------------------


def test_image_is_imported_listed_and_removed(tmp_path: Path, store: Store) -> None:
    archive = ImageBuilder().add_layer(file("a")).write_archive(tmp_path / "oci.tar")
    docker = ImageBuilder().add_layer(file("b")).write_docker_archive(tmp_path / "docker.tar", "app/web:1.2")
    first = import_image(str(archive), store=store)
    second = import_image(str(docker), store=store)
    assert (first.is_new, import_image(f"oci:{archive}", store=store).is_new) == (True, False)
    assert second.reference == f"app/web@{second.digest}"
    assert {image.digest for image in list_images(store)} == {first.digest, second.digest}
    pinned = ImageReference(reference=second.reference, platform=machine_platform())
    assert open_image(pinned, base=tmp_path, store=store).digest == second.digest
    assert [image.digest for image in remove_images(["app/web:1.2"], store=store)] == [second.digest]
    assert [image.digest for image in remove_images([first.digest[:20]], store=store)] == [first.digest]
    assert list_images(store) == []


def test_layout_directory_is_imported(tmp_path: Path, store: Store) -> None:
    layout = ImageBuilder().add_layer(file("a")).write_layout(tmp_path / "layout")
    assert import_image(str(layout), store=store).is_new


def test_image_in_use_is_not_removed(tmp_path: Path, store: Store) -> None:
    archive = ImageBuilder().add_layer(file("a")).write_archive(tmp_path / "oci.tar")
    image = import_image(str(archive), store=store)
    (kind,) = {record.kind for record in list_store(store)}
    with store.hold(kind, image.digest), raises_code("image-in-use"):
        remove_images([image.digest], store=store)
    assert remove_images([image.digest], store=store)


def test_removing_what_is_not_there_removes_nothing(tmp_path: Path, store: Store) -> None:
    archive = ImageBuilder().add_layer(file("a")).write_archive(tmp_path / "oci.tar")
    image = import_image(str(archive), store=store)
    with raises_code("image-unknown", match="found 0"):
        remove_images([image.digest, "never/was:1"], store=store)
    assert list_images(store) == [msgspec.structs.replace(image, is_new=False)]


def test_times_of_files_are_kept_for_byte_code(tmp_path: Path, store: Store) -> None:
    info, content = file("module.py", b"x = 1\n")
    info.mtime = 1_600_000_000
    late, nothing = file("late")
    late.mtime = 2**60
    rootfs = _unpack(ImageBuilder().add_layer((info, content), (late, nothing)), tmp_path, store).rootfs
    assert (rootfs / "module.py").stat().st_mtime == 1_600_000_000
    assert (rootfs / "late").stat().st_mtime == 2**32 - 1


def test_pin_that_the_layout_does_not_have_is_refused(tmp_path: Path, store: Store) -> None:
    ImageBuilder().add_layer(file("a")).write_layout(tmp_path / "layout")
    with raises_code("image-unreadable", match="found none"):
        open_image(ImageLayout(path="layout", digest="sha256:" + "1" * 64), base=tmp_path, store=store)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a tar file", bytes(1024), b"\x1f\x8b compressed", build_tar([file("manifest.json", b"[]")])],
    ids=["empty", "text", "zeros", "gzip", "no-index"],
)
def test_what_is_no_image_is_named_as_such(tmp_path: Path, store: Store, content: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with raises_code("image-unreadable"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)


def test_missing_archive_is_an_error_with_a_name(tmp_path: Path, store: Store) -> None:
    with raises_code("image-unreadable"):
        open_image(ImageArchive(path="image.tar"), base=tmp_path, store=store)


_NAMES = st.sampled_from(["a", "b", "a/c", "a/d", "b/c", "a/c/e"])
_LAYERS = st.lists(
    st.lists(st.tuples(st.sampled_from(["file", "dir", "hide"]), _NAMES), max_size=5), min_size=1, max_size=4
)


@given(_LAYERS)
def test_layers_add_up_as_in_a_simple_model(layers: list[list[tuple[str, str]]]) -> None:
    """The model is a dictionary; members that contradict each other within one layer are left out."""
    import tempfile

    model: dict[str, str] = {}
    builder = ImageBuilder()
    for number, layer in enumerate(layers):
        members = []
        own: set[str] = set()
        for kind, name in layer:
            parents = {name.rsplit("/", depth)[0] for depth in range(1, name.count("/") + 1)}
            if any(other == name or other.startswith(name + "/") or other in parents for other in own):
                continue
            own.add(name)
            head, _, tail = name.rpartition("/")
            if kind == "hide":
                if any(model.get(parent, "dir") != "dir" for parent in parents):
                    continue
                members.append(file(f"{head}/.wh.{tail}" if head else f".wh.{tail}"))
                _forget(model, name)
                continue
            if any(model.get(parent, "dir") != "dir" for parent in parents):
                continue
            model.update(dict.fromkeys(parents, "dir"))
            if kind == "file":
                _forget(model, name)
                model[name] = f"{number}"
                members.append(file(name, f"{number}".encode()))
            else:
                if model.get(name) != "dir":
                    _forget(model, name)
                model[name] = "dir"
                members.append(directory(name))
        builder.add_layer(*members)
    with tempfile.TemporaryDirectory() as scratch:
        image = _unpack(builder, Path(scratch), Store(Path(scratch) / "store"))
        found = {
            name: "dir" if (image.rootfs / name).is_dir() else (image.rootfs / name).read_text()
            for name in _listing(image.rootfs)
        }
    assert found == model


def _forget(model: dict[str, str], name: str) -> None:
    for key in [key for key in model if key == name or key.startswith(name + "/")]:
        del model[key]


def test_unpacked_tree_does_not_depend_on_the_store(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(file("a", b"1"), symlink("l", "a"), hard_link("h", "a"))
    digests = set()
    for name in ("one", "two"):
        image = _unpack(builder, tmp_path, Store(tmp_path / name))
        digests.add(image.entry.record.tree_digest)
    assert len(digests) == 1


def test_large_file_is_streamed_unchanged(tmp_path: Path, store: Store) -> None:
    content = io.BytesIO(hashlib.sha256(b"x").digest() * 100_000).getvalue()
    rootfs = _unpack(ImageBuilder().add_layer(file("big", content)), tmp_path, store).rootfs
    assert (rootfs / "big").read_bytes() == content


@pytest.mark.skipif(not is_root(), reason="the tests already run as an ordinary user")
def test_ordinary_user_unpacks_finds_and_removes_the_same_tree(tmp_path: Path) -> None:
    builder = ImageBuilder().add_layer(
        file("bin/su", b"x", mode=0o4711), file("d/f", mode=0o000), symlink("l", "d")
    )
    wanted = _unpack(builder, tmp_path, Store(tmp_path / "store")).entry.record.tree_digest
    with public_directory() as root:
        builder.write_archive(root / "image.tar")
        (root / "mine").mkdir()
        os.chown(root / "mine", account().uid, account().gid)
        child = multiprocessing.get_context("fork").Process(
            target=_live_as_ordinary_user, args=(root, wanted)
        )
        child.start()
        child.join(60)
        assert child.exitcode == 0


def _live_as_ordinary_user(root: Path, wanted: str) -> None:
    user = account()
    os.setgroups([])
    os.setgid(user.gid)
    os.setuid(user.uid)
    store = Store(root / "mine" / "store")
    first, second = (open_image(ImageArchive(path="image.tar"), base=root, store=store) for _ in range(2))
    assert (first.entry.is_new, second.entry.is_new) == (True, False)
    assert first.entry.record.tree_digest == wanted
    assert prune_store(store) == [first.digest]
    assert list(store.root.rglob("*")) == [store.root / "images"]
