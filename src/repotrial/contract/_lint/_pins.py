"""Rules about pins: a contract means the same thing tomorrow, on another machine (C2, C3, C12)."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial._core.display import list_some
from repotrial.contract._contract import ArchiveRepository, DirectoryRepository, GitRepository
from repotrial.contract._environment import AllowListNetwork, Network
from repotrial.contract._lint._subject import LintSubject, RuleFinding, rule
from repotrial.contract._lockfile import is_recorded

_MIN_LABELS = 2
_SHOWN_HOSTS = 5


@rule(
    "unpinned-image",
    "error",
    example="""
    [environment]
    image = { kind = "reference", reference = "docker.io/library/python:3.12" }
    """,
)
def unpinned_image(subject: LintSubject) -> Iterator[RuleFinding]:
    """An image is named without its digest.

    Why: a tag can be moved to another image, and then the same contract version runs in another environment.

    Fix: write `name@sha256:<64 hex digits>`; a tag before the `@` may stay for readers.
    """
    for field, image in subject.contract.environment.iter_image_references():
        if not image.is_pinned:
            yield RuleFinding(
                field=f"{field}.reference",
                message=f"expected an image reference that ends in @sha256:<64 hex digits>, "
                f"found {image.reference!r}",
                hint="resolve the tag once and write the digest after an '@'",
            )


@rule(
    "unpinned-source",
    "warning",
    example="""
    [repository]
    kind = "archive"
    source = "snapshot.tar.gz"
    """,
)
def unpinned_source(subject: LintSubject) -> Iterator[RuleFinding]:
    """The repository is an archive or a directory that neither a digest nor a lock pins.

    Why: the files beside the contract can be edited without a trace. A git source needs nothing more: its
    commit hash is the pin.

    Fix: run `repotrial contract lock`, or write the archive's `digest`.
    """
    if subject.loaded.lock is not None:
        return
    match subject.contract.repository:
        case GitRepository() | ArchiveRepository(digest=str()):
            return
        case ArchiveRepository(source=source) | DirectoryRepository(source=source):
            yield RuleFinding(
                field="repository.source",
                message=f"expected a digest or a lock for {source!r}, found neither",
                hint="run `repotrial contract lock`",
            )


@rule(
    "host-without-tools",
    "warning",
    example="""
    [environment]
    image = "host"
    tools = {}
    """,
)
def host_without_tools(subject: LintSubject) -> Iterator[RuleFinding]:
    """The environment is the host's, and no tool is named.

    Why: with `image = "host"` the tool constraints are all that the version id knows of the environment.

    Fix: list the tools that setup and checks start, with version constraints.
    """
    environment = subject.contract.environment
    if environment.image == "host" and not environment.tools:
        yield RuleFinding(
            field="environment.tools",
            message="expected the tools that the host must have, found none",
            hint='for example: tools = { python = ">=3.11", git = ">=2.30" }',
        )


@rule(
    "unpinned-mount",
    "warning",
    example="""
    [[environment.mounts]]
    target = "/opt/data"
    kind = "host-read-only"
    source = "/srv/data"
    """,
)
def unpinned_mount(subject: LintSubject) -> Iterator[RuleFinding]:
    """A directory of the host is mounted.

    Why: nothing pins what it holds, so another machine runs another contract under the same version id.

    Fix: ship the files as `[[environment.artifacts]]` with a digest, or let setup produce them.
    """
    for index, mount in enumerate(subject.contract.environment.mounts):
        if mount.kind == "host-read-only":
            yield RuleFinding(
                field=f"environment.mounts[{index}].kind",
                message=f"expected content with a digest at {mount.target}, found a directory of the host",
                hint="declare an artifact with a digest instead",
            )


@rule(
    "network-in-setup",
    "warning",
    example="""
    [[setup]]
    run = "npm ci"
    timeout_seconds = 300
    network = { kind = "allow-list", hosts = ["registry.example.org"] }
    """,
)
def network_in_setup(subject: LintSubject) -> Iterator[RuleFinding]:
    """A setup step uses the network, and nothing is recorded for replay.

    Why: what the hosts answer can change, so the contract is conditional on them and labelled
    non-replayable (C12).

    Fix: vendor what the step fetches, use a lock file with a cache, or name a `recording`.
    """
    for index, step in enumerate(subject.contract.setup):
        yield from _unrecorded(subject, f"setup[{index}].network", step.network)


@rule(
    "network-in-run",
    "warning",
    example="""
    [policy]
    network = { kind = "allow-list", hosts = ["docs.python.org"] }
    """,
)
def network_in_run(subject: LintSubject) -> Iterator[RuleFinding]:
    """The agent may use the network, and nothing is recorded for replay.

    Why: hosts change, and a solution may be published on one of them; the configuration is classed
    non-replayable (P9).

    Fix: leave the network off, or name a `recording`.
    """
    yield from _unrecorded(subject, "policy.network", subject.contract.policy.network)


@rule(
    "network-in-check",
    "warning",
    example="""
    [[checks]]
    id = "tests"
    gate = "acceptance"
    run = "python -m pytest tests"
    timeout_seconds = 300
    network = { kind = "allow-list", hosts = ["api.example.org"] }
    """,
)
def network_in_check(subject: LintSubject) -> Iterator[RuleFinding]:
    """A check uses the network, and nothing is recorded for replay.

    Why: the verdict then depends on what the hosts answer on that day, and candidate code may reach them, too
    (Q7). The contract is labelled non-replayable (C12).

    Fix: leave the network off, or name a `recording`.
    """
    for index, check in enumerate(subject.contract.checks):
        yield from _unrecorded(subject, f"checks[{index}].network", check.network)


def _unrecorded(subject: LintSubject, field: str, network: Network) -> Iterator[RuleFinding]:
    if isinstance(network, AllowListNetwork) and not is_recorded(network, subject.loaded.files):
        hosts = list_some(network.hosts, most=_SHOWN_HOSTS)
        yield RuleFinding(
            field=field,
            message=f"expected no network, or recorded exchanges, found live access to {hosts}",
            hint="vendor what is fetched, or add `recording` so that the next run replays it"
            if network.recording is None
            else f"run it once, and put what was recorded at {network.recording}",
        )


@rule(
    "network-wildcard",
    "error",
    example="""
    [policy]
    network = { kind = "allow-list", hosts = ["*"], recording = "network" }
    """,
)
def network_wildcard(subject: LintSubject) -> Iterator[RuleFinding]:
    """An allow-list holds a wildcard above a registered domain.

    Why: `*` or `*.com` allows nearly everything, and a list that allows everything is none.

    Fix: name the hosts; a wildcard needs at least two labels after it, such as `*.files.example.org`.
    """
    contract = subject.contract
    networks = [(f"setup[{i}].network", step.network) for i, step in enumerate(contract.setup)]
    networks += [(f"checks[{i}].network", check.network) for i, check in enumerate(contract.checks)]
    for field, network in [*networks, ("policy.network", contract.policy.network)]:
        if not isinstance(network, AllowListNetwork):
            continue
        for index, host in enumerate(network.hosts):
            if not _is_narrow(host):
                yield RuleFinding(
                    field=f"{field}.hosts[{index}]",
                    message=f"expected a host, or a wildcard below a registered domain, found {host!r}",
                    hint="name the hosts that are needed",
                )


def _is_narrow(host: str) -> bool:
    name = host.partition(":")[0].rstrip(".")
    if "*" not in name:
        return True
    first, _, rest = name.partition(".")
    labels = [label for label in rest.split(".") if label]
    return first == "*" and "*" not in rest and len(labels) >= _MIN_LABELS


RULES = (
    unpinned_image,
    unpinned_source,
    host_without_tools,
    unpinned_mount,
    network_in_setup,
    network_in_run,
    network_in_check,
    network_wildcard,
)
