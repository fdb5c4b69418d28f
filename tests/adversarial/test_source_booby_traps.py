"""Repositories that try to run something, or to be read from elsewhere, when a snapshot of them is taken."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from repotrial._core.errors import ContractError
from repotrial.contract import ArchiveRepository, DirectoryRepository, GitRepository, SubmodulePin
from repotrial.source import SourceOptions, materialize_snapshot, resolve_commit, resolve_snapshot
from support.errors import raises_code
from support.repositories import RepositoryMaker, build_patch, read_commit, run_git, write_files

PROGRAM_KEYS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.gitProxy",
    "core.askPass",
    "core.editor",
    "core.pager",
    "core.alternateRefsCommand",
    "uploadpack.packObjectsHook",
    "credential.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "gpg.program",
    "sequence.editor",
    "pager.diff",
    "interactive.diffFilter",
    "submodule.inner.update",
    "alias.cat-file",
    "alias.diff",
    "trailer.x.command",
)
HOOKS = (
    "post-checkout",
    "pre-commit",
    "reference-transaction",
    "post-index-change",
    "fsmonitor-watchman",
    "update",
)


class Trap:
    """A repository in which everything that git could run leaves a mark."""

    def __init__(self, tmp_path: Path) -> None:
        self.base = tmp_path
        self.mark = tmp_path / "mark"
        program = tmp_path / "evil.sh"
        program.write_text(f'#!/bin/sh\necho "$0" "$@" >> {self.mark}\ncat\n')
        program.chmod(0o755)
        self.program = program
        self.maker = RepositoryMaker(tmp_path / "repo")
        attributes = "* filter=evil diff=evil merge=evil text eol=crlf\n"
        self.first = self.maker.commit({".gitattributes": attributes, "a.txt": "one\n"})
        self.second = self.maker.commit({"a.txt": "two\n"})
        self.arm()

    def arm(self) -> None:
        git_dir = self.maker.path / ".git"
        for hook in HOOKS:
            write_files(git_dir, {f"hooks/{hook}": self.program.read_bytes()})
            (git_dir / "hooks" / hook).chmod(0o755)
        included = self.base / "included"
        for key in PROGRAM_KEYS:
            for file in (git_dir / "config", included):
                run_git(self.base, "config", "--file", str(file), key, str(self.program))
        for name in ("filter.evil.required", "extensions.worktreeConfig"):
            run_git(self.base, "config", "--file", str(git_dir / "config"), name, "true")
        for key in ("include.path", f"includeIf.gitdir:{git_dir}.path"):
            run_git(self.base, "config", "--file", str(git_dir / "config"), key, str(included))
        shutil.copy(included, git_dir / "config.worktree")
        write_files(git_dir, {"info/attributes": "* filter=evil diff=evil\n"})


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def test_the_trap_is_armed(trap: Trap) -> None:
    """Without our precautions, plain git does run the repository's programs."""
    with contextlib.suppress(AssertionError):  # the filter does not speak git's protocol, so git gives up
        run_git(trap.maker.path, "status")
    assert "evil.sh" in trap.mark.read_text()


def test_configuration_hooks_and_filters_of_a_repository_do_not_run(trap: Trap) -> None:
    repository = GitRepository(source="repo", commit=trap.first)
    materialize_snapshot(repository, base=trap.base, into=trap.base / "out")
    assert (trap.base / "out/a.txt").read_bytes() == b"one\n"
    assert resolve_commit("repo", "main~1", base=trap.base) == trap.first
    assert read_commit("repo", trap.second, base=trap.base).changes[0].path == "a.txt"
    assert b"-one\n+two\n" in build_patch("repo", trap.first, trap.second, base=trap.base)
    assert not trap.mark.exists()


def test_a_file_url_runs_nothing_either(trap: Trap) -> None:
    repository = GitRepository(source=trap.maker.path.as_uri(), commit=trap.first, protocols=("file",))
    resolve_snapshot(repository, base=trap.base)
    assert not trap.mark.exists()


def test_a_broken_configuration_is_reported(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    commit = maker.commit({"a": "1"})
    (maker.path / ".git/config").write_text("[core\nnonsense")
    with raises_code("not-a-repository", match="config"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)


def test_a_repository_owned_by_someone_else_is_read(tmp_path: Path) -> None:
    """It is never opened as a repository, so git's ownership check has nothing to guard."""
    maker = RepositoryMaker(tmp_path / "repo")
    commit = maker.commit({"a": "1"})
    if os.geteuid() == 0:
        for path in (maker.path, *maker.path.rglob("*")):
            os.chown(path, 12345, 12345, follow_symlinks=False)
    assert resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path).file_count == 1


def make_private(tmp_path: Path) -> tuple[RepositoryMaker, str]:
    """A repository outside the contract directory whose content must not be reached."""
    private = RepositoryMaker(tmp_path / "private")
    return private, private.commit({"secret": "s"})


def test_alternates_that_lead_outside_are_refused(tmp_path: Path) -> None:
    private, commit = make_private(tmp_path)
    maker = RepositoryMaker(tmp_path / "contract/repo")
    maker.commit({"a": "1"})
    (maker.path / ".git/objects/info/alternates").write_text(f"{private.path}/.git/objects\n")
    with raises_code("repository-refused", match="alternates"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path / "contract")


@pytest.mark.parametrize(
    "part", ["objects", "objects/pack", "objects/pack/pack-1.pack", "objects/ab/cd", "config"]
)
def test_symbolic_links_among_the_objects_are_refused(tmp_path: Path, part: str) -> None:
    private, commit = make_private(tmp_path)
    maker = RepositoryMaker(tmp_path / "contract/repo")
    maker.commit({"a": "1"})
    place = maker.path / ".git" / part
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(private.path / ".git" / part)
    with raises_code("repository-refused"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path / "contract")


@pytest.mark.parametrize("kind", ["file", "link", "commondir"])
def test_a_git_directory_that_lies_elsewhere_is_refused(tmp_path: Path, kind: str) -> None:
    private, commit = make_private(tmp_path)
    repo = tmp_path / "contract/repo"
    repo.mkdir(parents=True)
    if kind == "file":
        (repo / ".git").write_text(f"gitdir: {private.path}/.git\n")
    elif kind == "link":
        (repo / ".git").symlink_to(private.path / ".git")
    else:
        write_files(repo, {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": ""})
        (repo / ".git/commondir").write_text(f"{private.path}/.git\n")
    with raises_code("repository-refused"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path / "contract")


def test_objects_stored_under_a_false_name_are_refused(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    commit = maker.commit({"a": "good"})
    good = maker.git("rev-parse", "HEAD:a").decode().strip()
    evil = maker.blob(b"evil")
    objects = maker.path / ".git/objects"
    target = objects / good[:2] / good[2:]
    target.unlink()
    shutil.copy(objects / evil[:2] / evil[2:], target)
    with raises_code("git-object-corrupt", match=good):
        materialize_snapshot(
            GitRepository(source="repo", commit=commit), base=tmp_path, into=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_replacement_refs_and_grafts_have_no_effect(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    first = maker.commit({"a": "good"})
    second = maker.commit({"a": "evil"})
    maker.git("replace", first, second)
    maker.git("pack-refs", "--all")
    write_files(maker.path, {".git/info/grafts": f"{second}\n"})
    materialize_snapshot(GitRepository(source="repo", commit=first), base=tmp_path, into=tmp_path / "out")
    assert (tmp_path / "out/a").read_text() == "good"
    assert read_commit("repo", second, base=tmp_path).parents == (first,)


def test_a_forged_commit_graph_has_no_effect(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    first = maker.commit({"a": "1"})
    second = maker.commit({"a": "2"})
    maker.git("commit-graph", "write", "--reachable")
    graph = maker.path / ".git/objects/info/commit-graph"
    graph.chmod(0o644)
    tree = bytes.fromhex(maker.git("rev-parse", f"{second}^{{tree}}").decode().strip())
    forged = bytes.fromhex(maker.git("rev-parse", f"{first}^{{tree}}").decode().strip())
    graph.write_bytes(graph.read_bytes().replace(tree, forged))
    assert [file.path for file in read_commit("repo", second, base=tmp_path).changes] == ["a"]
    assert b"+2" in build_patch("repo", first, second, base=tmp_path)


# -- submodules ------------------------------------------------------------------------------------------


def make_app(tmp_path: Path, *, url: str, path: str = "inner", commit: str = "1" * 40) -> GitRepository:
    app = RepositoryMaker(tmp_path / "contract/app")
    app.add_submodule(path, commit, url=url, name="../../evil")
    return GitRepository(source="app", commit=app.commit_index(), protocols=("file", "https", "ssh"))


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {mark}",
        "--upload-pack=touch {mark}",
        "-u./evil.sh",
        "ssh://-oProxyCommand=touch%20{mark}/x",
        "-oProxyCommand=touch:x",
        "git@-oProxyCommand=touch:x",
        "fd::17/x",
        "{private}",
        "file://{private}",
        "../../private",
        "./../../private",
        "transport::https://example.invalid",
        "https://example.invalid\\\\@evil/x",
        "ftp://example.invalid/x",
    ],
)
def test_submodule_urls_cannot_run_or_reach_anything(tmp_path: Path, url: str) -> None:
    private, commit = make_private(tmp_path)
    mark = tmp_path / "mark"
    text = url.replace("{mark}", str(mark)).replace("{private}", str(private.path))
    repository = make_app(tmp_path, url=text, commit=commit)
    with raises_code("submodule-unresolved", match="inner"):
        resolve_snapshot(repository, base=tmp_path / "contract")
    assert not mark.exists()


@pytest.mark.parametrize("path", ["-option", "--upload-pack=x", "a/-rf"])
def test_submodule_paths_that_look_like_options_are_only_paths(tmp_path: Path, path: str) -> None:
    inner = RepositoryMaker(tmp_path / "contract/inner")
    repository = make_app(tmp_path, url="../inner", path=path, commit=inner.commit({"f": "1"}))
    materialize_snapshot(repository, base=tmp_path / "contract", into=tmp_path / "out")
    assert (tmp_path / "out" / path / "f").read_text() == "1"


def test_an_update_command_in_gitmodules_does_not_run(tmp_path: Path) -> None:
    inner = RepositoryMaker(tmp_path / "inner").commit({"f": "1"})
    app = RepositoryMaker(tmp_path / "app")
    app.add_submodule("inner", inner, url="../inner")
    modules = app.path / ".gitmodules"
    modules.write_text(
        modules.read_text() + f"\tupdate = !touch {tmp_path}/mark\n[include]\n\tpath = /etc/passwd\n"
    )
    app.git("add", ".gitmodules")
    materialize_snapshot(
        GitRepository(source="app", commit=app.commit_index()), base=tmp_path, into=tmp_path / "out"
    )
    assert (tmp_path / "out/inner/f").exists()
    assert not (tmp_path / "mark").exists()


def test_a_gitmodules_path_that_leaves_the_tree_places_nothing(tmp_path: Path) -> None:
    inner = RepositoryMaker(tmp_path / "inner").commit({"f": "1"})
    app = RepositoryMaker(tmp_path / "app")
    app.add_submodule("inner", inner, url="../inner")
    (app.path / ".gitmodules").write_text('[submodule "x"]\n\tpath = ../outside\n\turl = ../inner\n')
    app.git("add", ".gitmodules")
    with raises_code("submodule-unresolved", match="inner"):
        materialize_snapshot(
            GitRepository(source="app", commit=app.commit_index()), base=tmp_path, into=tmp_path / "out"
        )
    assert not (tmp_path / "outside").exists()


def test_a_gitmodules_link_is_not_followed(tmp_path: Path) -> None:
    inner = RepositoryMaker(tmp_path / "inner").commit({"f": "1"})
    app = RepositoryMaker(tmp_path / "app")
    modules = app.blob(b'[submodule "x"]\n\tpath = inner\n\turl = ../inner\n')
    link = app.blob(b"modules")
    entries = [("120000", ".gitmodules", link), ("160000", "inner", inner), ("100644", "modules", modules)]
    commit = app.commit_tree(entries)
    with raises_code("submodule-unresolved", match="inner"):
        resolve_snapshot(GitRepository(source="app", commit=commit), base=tmp_path)


@pytest.mark.parametrize(
    "source", ["/etc", "../private", "ext::touch x", "-x", "https://a:b@example.invalid/x"]
)
def test_a_pinned_source_is_checked_like_any_other(tmp_path: Path, source: str) -> None:
    repository = make_app(tmp_path, url="../inner")
    pin = SubmodulePin(path="inner", commit="1" * 40, source=source)
    with raises_code("submodule-unresolved"):
        resolve_snapshot(
            GitRepository(source="app", commit=repository.commit, submodules=(pin,)),
            base=tmp_path / "contract",
        )


# -- option injection ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "--upload-pack=touch mark",
        "-u",
        "ext::sh -c 'touch mark'",
        "ext::sh",
        "fd::3",
        "ssh://-oProxyCommand=touch/x",
        "ssh://-x@host/x",
        "-oProxyCommand=touch:x",
        "host:-x",
        "https://",
        "https:///x",
        "repo\nx",
        "repo\0x",
        " repo",
        "",
    ],
)
def test_options_and_commands_in_place_of_a_source_are_refused(tmp_path: Path, source: str) -> None:
    repository = GitRepository(
        source=source, commit="1" * 40, protocols=("ext", "fd", "ssh", "https", "file")
    )
    with pytest.raises(ContractError):
        resolve_snapshot(repository, base=tmp_path)
    with pytest.raises(ContractError):
        resolve_commit(source, "main", base=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_contract_cannot_allow_commands_as_a_transport(tmp_path: Path) -> None:
    repository = GitRepository(source="ext::touch x", commit="1" * 40, protocols=("ext",))
    with raises_code("protocol-refused"):
        resolve_snapshot(repository, base=tmp_path)


def test_a_bundle_cannot_plant_refs_or_configuration(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    commit = maker.commit({"a": "1"})
    bundle = maker.bundle(tmp_path / "repo.bundle")
    head = f"{commit} refs/heads/main\n".encode()
    for name in (
        b"refs/heads/../../config",
        b"refs/replace/" + b"1" * 40,
        b"refs/heads/x\0update HEAD",
        b"-x",
    ):
        forged = bundle.read_bytes().replace(head, head + commit.encode() + b" " + name + b"\n", 1)
        (tmp_path / "forged.bundle").write_bytes(forged)
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        try:
            snapshot = resolve_snapshot(
                GitRepository(source="forged.bundle", commit=commit),
                base=tmp_path,
                options=SourceOptions(scratch=scratch),
            )
        except ContractError:
            pass
        else:
            assert snapshot.total_bytes == 1
        assert list(scratch.iterdir()) == []


def test_a_commit_of_another_repository_on_this_machine_is_not_found(tmp_path: Path) -> None:
    _, commit = make_private(tmp_path)
    RepositoryMaker(tmp_path / "contract/repo").commit({"a": "1"})
    with raises_code("commit-not-found"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path / "contract")


def test_a_pipe_in_place_of_a_bundle_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "repo.bundle")
    with raises_code("not-a-repository", match="special file"):
        resolve_snapshot(GitRepository(source="repo.bundle", commit="1" * 40), base=tmp_path)


@pytest.mark.parametrize("part", ["config", "objects/aa", "objects/aa/bb", "objects/pack/x.pack"])
def test_a_pipe_inside_a_repository_does_not_hang(tmp_path: Path, part: str) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    commit = maker.commit({"a": "x"})
    place = maker.path / ".git" / part
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    with raises_code("repository-refused"):
        resolve_snapshot(GitRepository(source="app", commit=commit), base=tmp_path)


@pytest.mark.parametrize("part", ["refs", "refs/heads", "refs/tags"])
def test_refs_behind_a_link_are_not_read(tmp_path: Path, part: str) -> None:
    maker = RepositoryMaker(tmp_path / "contract/app")
    commit = maker.commit({"a": "x"})
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(maker.path / ".git" / part, elsewhere)
    shutil.rmtree(maker.path / ".git" / part)
    (maker.path / ".git" / part).symlink_to(elsewhere)
    with raises_code("repository-refused", match="symbolic link"):
        resolve_snapshot(GitRepository(source="app", commit=commit), base=tmp_path / "contract")


@pytest.mark.parametrize("name", ["loop", "loop/a.tar", "n" * 300])
def test_a_path_that_leads_nowhere_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for repository in (
        GitRepository(source=name, commit="1" * 40),
        ArchiveRepository(source=name),
        DirectoryRepository(source=name),
    ):
        with pytest.raises(ContractError):
            resolve_snapshot(repository, base=tmp_path)


def test_a_password_before_the_host_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with raises_code("source-has-credentials") as caught:
        resolve_snapshot(GitRepository(source="user:pa55word@host:app.git", commit="1" * 40), base=tmp_path)
    assert "pa55word" not in str(caught.value)
