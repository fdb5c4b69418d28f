"""Real repositories, bundles and archives for tests, made with the real git in a temporary directory."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from repotrial.source import CommitInfo, open_history

__all__ = ["AUTHOR_SECONDS", "RepositoryMaker", "make_tar", "make_zip", "run_git", "write_files"]

AUTHOR_SECONDS = 1_700_000_000

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A Developer",
    "GIT_AUTHOR_EMAIL": "developer@example.org",
    "GIT_AUTHOR_DATE": f"{AUTHOR_SECONDS} +0200",
    "GIT_COMMITTER_NAME": "A Developer",
    "GIT_COMMITTER_EMAIL": "developer@example.org",
    "GIT_COMMITTER_DATE": f"{AUTHOR_SECONDS} +0200",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C",
}

Files = Mapping[str | bytes, str | bytes]


def run_git(cwd: Path, *args: str | bytes, stdin: bytes = b"") -> bytes:
    """Run git as a developer would, with a fixed identity and date."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **_IDENTITY}
    done = subprocess.run(
        ["git", *args], cwd=cwd, env=environment, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def write_files(root: Path, files: Files) -> None:
    for name, content in files.items():
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


class RepositoryMaker:
    """One repository, filled commit by commit."""

    def __init__(self, path: Path, *, object_format: str = "sha1", is_bare: bool = False) -> None:
        self.path = path
        path.mkdir(parents=True)
        bare = ["--bare"] if is_bare else []
        self.git("init", "-q", "-b", "main", f"--object-format={object_format}", *bare, ".")

    def git(self, *args: str | bytes, stdin: bytes = b"") -> bytes:
        return run_git(self.path, *args, stdin=stdin)

    def commit(self, files: Files | None = None, *, message: str = "Change files") -> str:
        """Write `files`, commit everything, and return the commit's full hash."""
        write_files(self.path, files or {})
        self.git("add", "--all", "--force")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").decode().strip()

    def commit_tree(self, entries: Sequence[tuple[str, str, str]]) -> str:
        """A commit of a tree with exactly these (mode, name, object id), even if `git add` would refuse."""
        body = b"".join(
            mode.encode() + b" " + os.fsencode(name) + b"\0" + bytes.fromhex(object_id)
            for mode, name, object_id in entries
        )
        tree = self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=body)
        return self.git("commit-tree", "-m", "Made by hand", tree.decode().strip()).decode().strip()

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def add_submodule(self, path: str, commit: str, *, url: str, name: str | None = None) -> None:
        """Record a submodule without `git submodule`, which would refuse the odd ones."""
        section = f'[submodule "{name or path}"]\n\tpath = {path}\n\turl = {url}\n'
        modules = self.path / ".gitmodules"
        modules.write_text((modules.read_text() if modules.exists() else "") + section)
        self.git("add", ".gitmodules")
        self.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")

    def commit_index(self, message: str = "Change the index") -> str:
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").decode().strip()

    def bundle(self, target: Path, *revisions: str) -> Path:
        self.git("bundle", "create", "-q", str(target), *(revisions or ("--all",)))
        return target


def make_tar(
    path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]], *, compression: str = "", **options: int
) -> Path:
    """A tar archive of exactly these members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}", **options) as archive:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(buffer.getvalue())
    return path


def make_zip(path: Path, members: Sequence[tuple[zipfile.ZipInfo, bytes]]) -> Path:
    """A zip archive of exactly these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in members:
            archive.writestr(info, content, compress_type=zipfile.ZIP_DEFLATED)
    return path


def read_commit(source: str, commit: str, *, base: Path) -> CommitInfo:
    """`History.read_commit` for a single question."""
    with open_history(source, base=base) as history:
        return history.read_commit(commit)


def build_patch(
    source: str,
    before: str,
    after: str,
    *,
    base: Path,
    paths: Sequence[str] = (),
    excluded: Sequence[str] = (),
) -> bytes:
    """`History.build_patch` for a single question."""
    with open_history(source, base=base) as history:
        return history.build_patch(before, after, paths=paths, excluded=excluded)
