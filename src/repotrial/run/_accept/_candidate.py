"""The candidate: Δ as it is judged, without what may not cross into acceptance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Final

import msgspec

from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import AgentError
from repotrial._core.escaping import escape_bytes
from repotrial.change import GITLINK, ChangeView, read_change
from repotrial.contract import LoadedContract, Policy
from repotrial.environment import Installation
from repotrial.isolation import Bind, CommandResult, CommandSpec, Sandbox, SandboxSpec, open_sandbox
from repotrial.policy import split_change
from repotrial.run._accept._oracle import find_collisions, list_targets
from repotrial.run._accept._shadows import BaseTest, find_import_roots, find_shadows
from repotrial.trace import Exited
from repotrial.workspace import Mark, OverlayWorkspace, Workspace

_NAMES: Final = frozenset(
    {
        # Python: run at start, or by the framework before any test.
        *("sitecustomize.py", "usercustomize.py", "conftest.py"),
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", ".coveragerc"),
        # Node.js: what runs before a script, and which one.
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".noderc", ".node-options", ".mocharc.js"),
        *(".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml", ".babelrc"),
        # Build tools and shells: wrappers, runners and start-up files.
        *(".bashrc", ".profile", ".envrc", ".gdbinit", "gdb.ini", ".lldbinit", "rust-toolchain"),
        *("rust-toolchain.toml", "mvnw", "gradlew", ".mvn", "jvm.config"),
    }
)
_PATTERNS: Final = re.compile(
    r"(^|/)(\.cargo/config(\.toml)?|node_modules/|\.git/|__pycache__/)"
    r"|\.pth$|\.pyc$|\.egg-link$|-info/entry_points\.txt$"
)


PATCH_NAME: Final = "change.patch"
RESULTS_PLACE: Final = "/opt/repotrial/results"
APPLY_ARGV: Final = ("git", "apply", "--whitespace=nowarn", f"{RESULTS_PLACE}/{PATCH_NAME}")
_APPLY_SECONDS: Final = 300
_REJECTED: Final = re.compile(
    rb"^error: (?:patch failed: (?P<failed>.+):\d+"
    rb"|(?P<path>.+?): (?:patch does not apply|No such file or directory"
    rb"|already exists in .*|does not match .*))$",
    re.MULTILINE,
)
_VARIABLES: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
}


def find_allowed_paths(policy: Policy, reference_paths: Iterable[str]) -> frozenset[str]:
    """Steering files that the contract itself expects a change to touch."""
    literal = {pattern for pattern in policy.writable if not set(pattern) & set("*?[!")}
    return frozenset({*literal, *reference_paths})


def find_steering_paths(
    changed: Iterable[str], *, allowed: Collection[str], shadows: Collection[str] = ()
) -> tuple[str, ...]:
    """Of the changed paths those that would steer the judge.

    Args:
        changed: Paths of Δ.
        allowed: Never taken away.
        shadows: Those that take the place of a module that the judge needs.
    """
    return tuple(
        sorted(path for path in changed if path not in allowed and (path in shadows or _is_steering(path)))
    )


def _is_steering(path: str) -> bool:
    return PurePosixPath(path).name.lower() in _NAMES or _PATTERNS.search(path) is not None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What acceptance judges."""

    submitted: bytes
    """Δ as it was handed in."""
    patch: bytes
    """What of it is applied."""
    unreadable: str | None = None
    """Why nothing of it can be applied; None if it can."""
    stripped: tuple[str, ...] = ()
    """Protected paths that were taken out."""
    steering: tuple[str, ...] = ()
    """Paths that would have steered the judge."""
    collisions: dict[str, tuple[str, ...]] = {}
    """By check: paths that stand where its oracle files go."""

    @property
    def digest(self) -> Digest:
        return digest_bytes(self.submitted)


def build_candidate(loaded: LoadedContract, submitted: bytes, *, is_in_base: BaseTest) -> Candidate:
    """Hold a change against the policy and the oracle, and take out what may not cross."""
    try:
        view = read_change(submitted)
    except AgentError as error:  # `patch-unreadable`
        return Candidate(submitted=submitted, patch=b"", unreadable=error.message)
    changed = _list_paths(view)
    policy = loaded.contract.policy
    allowed = find_allowed_paths(policy, _list_reference_paths(loaded))
    targets = {check.id: list_targets(loaded, check) for check in loaded.contract.checks}
    everywhere = [target for found in targets.values() for target in found]
    shadows = find_shadows(
        changed,
        links=[file.path for file in view.files if file.is_symlink or file.mode == GITLINK],
        roots=find_import_roots(loaded.contract, everywhere, is_in_base),
        is_in_base=is_in_base,
    )
    steering = find_steering_paths(changed, allowed=allowed, shadows=shadows)
    collisions = {id_: found for id_, where in targets.items() if (found := find_collisions(changed, where))}
    taken = sorted({*steering, *(path for paths in collisions.values() for path in paths)})
    split = split_change(submitted, policy, taken)
    return Candidate(
        submitted=submitted,
        patch=split.kept,
        stripped=tuple(path for path in split.stripped if path not in taken),
        steering=steering,
        collisions=collisions,
    )


def _list_paths(view: ChangeView) -> list[str]:
    return sorted({path for file in view.files for path in file.touched_paths})


def _list_reference_paths(loaded: LoadedContract) -> list[str]:
    """An author's patch that cannot be read allows nothing."""
    try:
        return _list_paths(read_change(loaded.reference or b""))
    except AgentError:  # `patch-unreadable`
        return []


def apply_patch_inside(
    installation: Installation, workspace: Workspace, patch: bytes
) -> CommandResult | None:
    """Let git apply a patch to a fresh workspace, in a sandbox of its own; None where there is nothing to do.

    Git reads what an agent wrote, so it does not do it on the host.
    """
    if not patch:
        return None
    with installation.open_scratch() as scratch:
        scratch.write(PATCH_NAME, patch)
        bind = Bind(source=scratch.path, target=RESULTS_PLACE)
        with open_plain_sandbox(installation, workspace, bind) as sandbox:
            return apply_patch(sandbox)


def apply_patch(sandbox: Sandbox) -> CommandResult:
    """Let git apply the patch that lies at its place."""
    return sandbox.run(CommandSpec(argv=APPLY_ARGV, variables=_VARIABLES, timeout_seconds=_APPLY_SECONDS))


def open_plain_sandbox(installation: Installation, workspace: Workspace, *binds: Bind) -> Sandbox:
    """A sandbox for the harness's own tools: the host's programs, nothing of the contract's environment."""
    overlay = workspace.mount if isinstance(workspace, OverlayWorkspace) else None
    spec = SandboxSpec(workspace=workspace.path, overlay=overlay, binds=binds, variables=_VARIABLES)
    return open_sandbox(spec, level=installation.level)


def is_applied(result: CommandResult | None) -> bool:
    """Whether git took the whole patch."""
    return result is None or result.exit == Exited(code=0)


def find_rejected_paths(result: CommandResult | None) -> tuple[str, ...]:
    """Paths that git named as reasons."""
    if result is None or is_applied(result):
        return ()
    found = {match["failed"] or match["path"] for match in _REJECTED.finditer(result.stderr.prefix)}
    return tuple(sorted(escape_bytes(path) for path in found))


def build_tree_digest(base: Digest, mark: Mark) -> Digest:
    """One digest for a base with changes: the base's own, and every entry that differs."""
    entries: list[JsonValue] = [
        [escape_bytes(path), None if entry is None else msgspec.to_builtins(entry)]
        for path, entry in sorted(mark.entries.items())
    ]
    return base if not entries else canonical_digest(["repotrial/tree-after@1", base, entries])
