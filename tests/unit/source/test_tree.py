"""The tree digest: against git's own trees, against disk, and against its definition."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.contract import GitRepository
from repotrial.source import SnapshotLimits, compute_tree_digest, materialize_snapshot, resolve_snapshot
from repotrial.source._directory import DiscardingSink
from repotrial.source._tree import FileMode, Member, TreeEntry, build_tree_digest, collect_tree
from support.errors import raises_code
from support.exhaustive import examples
from support.repositories import RepositoryMaker, run_git, write_files

DOCS_PAGE = Path(__file__).parents[3] / "docs/reference/tree-digest.md"


class Leaf(msgspec.Struct, frozen=True):
    mode: FileMode
    content: bytes


def is_plain(name: bytes) -> bool:
    return name not in {b".", b".."} and b"git" not in name.lower()


names = st.one_of(
    st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
    st.sampled_from(
        [b"a", b"a b", b"a.b", b"a0", b"new\nline", b"\xff\xfe", "ünï".encode(), b"-rf", b"tab\t", b'"q"']
    ),
).filter(is_plain)

leaves = st.one_of(
    st.builds(Leaf, st.sampled_from([FileMode.REGULAR, FileMode.EXECUTABLE]), st.binary(max_size=40)),
    st.builds(
        Leaf,
        st.just(FileMode.SYMLINK),
        st.binary(min_size=1, max_size=20).map(lambda raw: raw.replace(b"\0", b"/")),
    ),
)

Tree = dict[bytes, "Leaf | Tree"]

trees = st.recursive(
    st.dictionaries(names, leaves, min_size=1, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(leaves, inner), min_size=1, max_size=4),
    max_leaves=8,
)


def flatten(tree: Tree, prefix: bytes = b"") -> dict[bytes, Leaf]:
    flat: dict[bytes, Leaf] = {}
    for name, node in tree.items():
        if isinstance(node, Leaf):
            flat[prefix + name] = node
        else:
            flat |= flatten(node, prefix + name + b"/")
    return flat


def place(root: Path, files: dict[bytes, Leaf]) -> None:
    for path, leaf in files.items():
        target = root / os.fsdecode(path)
        if leaf.mode is FileMode.SYMLINK:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(os.fsdecode(leaf.content))
        else:
            write_files(root, {path: leaf.content})
            target.chmod(0o755 if leaf.mode is FileMode.EXECUTABLE else 0o640)


def hash_as_git(tree: Tree) -> bytes:
    """Git's tree object id, from our listing: directories sort as if their names ended in '/'."""
    body = b""
    for name, node in sorted(
        tree.items(), key=lambda item: item[0] + (b"" if isinstance(item[1], Leaf) else b"/")
    ):
        if isinstance(node, Leaf):
            blob = b"blob %d\0" % len(node.content) + node.content
            body += node.mode.value + b" " + name + b"\0" + hashlib.sha1(blob).digest()
        else:
            body += b"40000 " + name + b"\0" + hash_as_git(node)
    return hashlib.sha1(b"tree %d\0" % len(body) + body).digest()


def define_digest(files: dict[bytes, Leaf]) -> str:
    """The definition, written out once more in the shortest way."""
    data = b"repotrial/tree@1\0"
    for path in sorted(files):
        data += files[path].mode.value + len(path).to_bytes(8, "big") + path
        data += hashlib.sha256(files[path].content).digest()
    return "sha256:" + hashlib.sha256(data).hexdigest()


@settings(max_examples=examples(20, thorough=200))
@given(tree=trees)
def test_git_and_disk_and_definition_agree_on_any_tree(tree: Tree) -> None:
    files = flatten(tree)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        maker = RepositoryMaker(base / "repo")
        place(maker.path, files)
        commit = maker.commit()
        listed = [line for line in maker.git("ls-tree", "-r", "-z", commit).split(b"\0") if line]
        assert {line.partition(b"\t")[2]: line[:6] for line in listed} == {
            path: leaf.mode.value for path, leaf in files.items()
        }
        assert maker.git("rev-parse", f"{commit}^{{tree}}").strip().decode() == hash_as_git(tree).hex()

        repository = GitRepository(source="repo", commit=commit)
        snapshot = materialize_snapshot(repository, base=base, into=base / "out")
        assert snapshot.tree_digest == define_digest(files)
        assert snapshot == resolve_snapshot(repository, base=base)
        assert snapshot.file_count == len(files)
        assert snapshot.total_bytes == sum(len(leaf.content) for leaf in files.values())
        assert compute_tree_digest(base / "out") == snapshot.tree_digest
        assert compute_tree_digest(maker.path, history_ignored=True) == snapshot.tree_digest
        # What was written is, to git, the same tree again.
        run_git(base / "out", "init", "-q", ".")
        run_git(base / "out", "add", "--all", "--force")
        assert run_git(base / "out", "write-tree").strip().decode() == hash_as_git(tree).hex()


@settings(max_examples=examples(50, thorough=1000))
@given(tree=trees, other=trees)
def test_different_trees_have_different_digests(tree: Tree, other: Tree) -> None:
    def digest(tree: Tree) -> str:
        return build_tree_digest(
            TreeEntry(path=path, mode=leaf.mode, content_digest=hashlib.sha256(leaf.content).digest())
            for path, leaf in flatten(tree).items()
        )

    assert (digest(tree) == digest(other)) == (flatten(tree) == flatten(other))
    assert digest(tree) == define_digest(flatten(tree))


def test_moving_a_byte_between_path_and_content_changes_the_digest() -> None:
    one = TreeEntry(path=b"ab", mode=FileMode.REGULAR, content_digest=hashlib.sha256(b"c").digest())
    two = TreeEntry(path=b"a", mode=FileMode.REGULAR, content_digest=hashlib.sha256(b"bc").digest())
    assert build_tree_digest([one]) != build_tree_digest([two])


def test_order_of_entries_does_not_count() -> None:
    entries = [
        TreeEntry(path=path, mode=FileMode.REGULAR, content_digest=bytes(32)) for path in (b"b", b"a", b"a/b")
    ]
    assert build_tree_digest(entries) == build_tree_digest(reversed(entries))


def test_worked_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    write_files(tmp_path, {"README": "hi\n", "bin/run": "#!/bin/sh\n"})
    (tmp_path / "bin/run").chmod(0o755)
    (tmp_path / "link").symlink_to("README")
    page = DOCS_PAGE.read_text()
    printed = bytes.fromhex(
        "".join(re.findall(r"^    ((?:[0-9a-f]{2} ?)+)", page, flags=re.MULTILINE)).replace(" ", "")
    )
    digest = "sha256:" + hashlib.sha256(printed).hexdigest()
    assert digest in page
    assert compute_tree_digest(tmp_path) == digest


def test_digest_of_an_empty_tree_is_the_documented_one(tmp_path: Path) -> None:
    digest = compute_tree_digest(tmp_path)
    assert digest == "sha256:" + hashlib.sha256(b"repotrial/tree@1\0").hexdigest()
    assert digest in DOCS_PAGE.read_text()


def test_empty_directories_do_not_count(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1"})
    before = compute_tree_digest(tmp_path)
    (tmp_path / "empty/deep").mkdir(parents=True)
    assert compute_tree_digest(tmp_path) == before


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o677])
def test_only_the_owners_executable_bit_counts(tmp_path: Path, mode: int) -> None:
    write_files(tmp_path, {"a": "1"})
    (tmp_path / "a").chmod(0o644)
    before = compute_tree_digest(tmp_path)
    (tmp_path / "a").chmod(mode)
    assert compute_tree_digest(tmp_path) == before
    (tmp_path / "a").chmod(0o744)
    assert compute_tree_digest(tmp_path) != before


def test_history_is_refused_unless_it_is_to_be_ignored(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1", ".git/HEAD": "ref"})
    with raises_code("unsafe-path"):
        compute_tree_digest(tmp_path)
    with_history = compute_tree_digest(tmp_path, history_ignored=True)
    (tmp_path / ".git/HEAD").unlink()
    (tmp_path / ".git").rmdir()
    assert compute_tree_digest(tmp_path) == with_history


def test_history_deeper_down_is_refused_always(tmp_path: Path) -> None:
    write_files(tmp_path, {"sub/.git/HEAD": "ref"})
    with raises_code("unsafe-path"):
        compute_tree_digest(tmp_path, history_ignored=True)


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with raises_code("unsupported-entry", match="pipe"):
        compute_tree_digest(tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path, {"tree/a": "1", "outside/secret": "2"})
    (tmp_path / "tree/out").symlink_to("../outside")
    before = compute_tree_digest(tmp_path / "tree")
    (tmp_path / "outside/secret").write_text("3")
    assert compute_tree_digest(tmp_path / "tree") == before


@pytest.mark.parametrize("second", [b"a", b"a/b"])
def test_two_claims_on_one_path_are_refused(second: bytes) -> None:
    members = [Member(path=path, mode=FileMode.REGULAR, chunks=[b""]) for path in (b"a", second)]
    for order in (members, members[::-1]):
        with raises_code("tree-conflict"):
            collect_tree(order, sink=DiscardingSink(), limits=SnapshotLimits())


def test_a_directory_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"file": "x"})
    for name in ("absent", "file"):
        with raises_code("tree-unreadable", match=name):
            compute_tree_digest(tmp_path / name)
