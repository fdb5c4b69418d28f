"""What package environments have in common: how building one can fail, and the machine's way to an index.

An index is reachable only while an environment is built. Builders start with an empty environment; what the
machine says about its index (addresses, proxies, certificates) is passed on by name and value, nothing else
of its configuration is, and the names are kept in the record of what was built.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.errors import ContractError, ErrorCode, MachineError, RepoTrialError
from repotrial.environment._process import FinishedProgram

_SHOWN_CHARACTERS = 1500


PACKAGE_LOCK_INVALID = ErrorCode(
    "package-lock-invalid",
    ContractError,
    "A lock file of packages cannot be read, leaves something open, or asks for more than packages.",
    hint="write it with `pip-compile --generate-hashes`, `uv pip compile --generate-hashes` or `npm install`",
)
PACKAGE_HASH_MISSING = ErrorCode(
    "package-hash-missing",
    ContractError,
    "A lock file names a package without the hash of its file.",
    hint="lock with hashes: `pip-compile --generate-hashes`, or a package-lock.json of npm 7 or later",
)
PACKAGE_HASH_MISMATCH = ErrorCode(
    "package-hash-mismatch",
    ContractError,
    "The index served a file that is not the one in the lock.",
    hint="do not build this: find out whether the lock is wrong or the index was tampered with",
)
PACKAGE_INDEX_UNREACHABLE = ErrorCode(
    "package-index-unreachable",
    MachineError,
    "No package index could be reached to build an environment.",
    hint="connect this machine, configure its index (pip.conf, PIP_INDEX_URL, .npmrc), or copy the store "
    "from a machine that has built the environment",
)
PACKAGE_PLATFORM = ErrorCode(
    "package-platform",
    MachineError,
    "A locked package has no built file for this interpreter and machine; nothing is built from source.",
    hint="use an interpreter and a machine that the lock was made for, or lock again on this one",
)
PACKAGE_VERSION_MISSING = ErrorCode(
    "package-version-missing",
    MachineError,
    "The package index does not have a package, or not in the version that is wanted.",
    hint="use an index that has it, or name a version that this one has",
)
PACKAGE_BUILDER_MISSING = ErrorCode(
    "package-builder-missing",
    MachineError,
    "The program that installs packages is missing or too old.",
    hint="apt install python3-venv (for Python), apt install npm (for Node.js)",
)
PACKAGE_BUILD_FAILED = ErrorCode(
    "package-build-failed",
    MachineError,
    "Installing the packages of a lock failed; the message holds what the installer said.",
    hint="run the same installation by hand to see more",
)


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this machine reaches package indexes. Values may hold credentials: only names are ever recorded."""

    pip: Mapping[str, str] = {}
    """Variables for pip."""
    npm: Mapping[str, str] = {}
    """Lines for an npmrc file."""
    transport: Mapping[str, str] = {}
    """Proxies and certificates, for both."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """Words of an installer, and what they mean."""

    pattern: str
    error: ErrorCode[RepoTrialError]
    is_in_log: bool = False
    """Whether the installer tells it to its log only, where failures of other kinds leave their words too."""


def verify_built(finished: FinishedProgram, what: str, symptoms: Sequence[Symptom], *, log: str = "") -> None:
    """Turn an installer's failure into an error with a name.

    Args:
        finished: What came of it.
        what: Its name.
        symptoms: What its words mean.
        log: More of its words, too many to be shown.

    Raises:
        RepoTrialError: the error of the first symptom found; PACKAGE_BUILD_FAILED if there is none.
    """
    if finished.status == 0:
        return
    said = (finished.stdout + b"\n" + finished.stderr).decode(errors="replace")
    found = (
        item.error for item in symptoms if re.search(item.pattern, said + log if item.is_in_log else said)
    )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    shown = neutralize(
        "; ".join(lines)[-_SHOWN_CHARACTERS:] or "no message", max_characters=_SHOWN_CHARACTERS
    )
    raise next(found, PACKAGE_BUILD_FAILED).error(
        f"{what}: expected the installation to succeed, found status {finished.status}: {shown}"
    )


# -- the machine's settings --------------------------------------------------------------------------------

_PIP_KEYS = (
    "cert",
    "client-cert",
    "default-timeout",
    "extra-index-url",
    "find-links",
    "index-url",
    "no-index",
    "proxy",
    "retries",
    "timeout",
    "trusted-host",
)
_NPM_KEYS = re.compile(
    r"registry|@[^:]+:registry|ca|cafile|proxy|https-proxy|noproxy|strict-ssl"
    r"|fetch-(?:retries|timeout|retry-mintimeout|retry-maxtimeout)|//\S+:(?:_authToken|_auth|username|_password)"
)
_TRANSPORT = re.compile(
    r"(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
)
_MAX_FILE_BYTES = 1 << 20
_MAX_LOG_BYTES = 16 << 20


def load_index_settings(
    variables: Mapping[str, str], *, home: Path, node_prefix: Path | None = None
) -> IndexSettings:
    """Read what pip and npm themselves would read, and keep what concerns the index.

    Args:
        variables: The environment of the operator.
        home: The operator's home.
        node_prefix: Where Node.js is installed, for its global npmrc.
    """
    pip = dict(_iter_pip_files(variables, home))
    pip |= {
        name: value for name, value in variables.items() if name in {_pip_variable(key) for key in _PIP_KEYS}
    }
    prefix = node_prefix or Path("/usr")
    files = (prefix / "etc/npmrc", Path(variables.get("npm_config_userconfig", home / ".npmrc")))
    npm = {key: value for path in files for key, value in _iter_npmrc(path, variables)}
    for name, value in variables.items():
        key = name.lower().removeprefix("npm_config_").replace("_", "-")
        if name.lower().startswith("npm_config_") and _NPM_KEYS.fullmatch(key):
            npm[key] = value
    transport = {name: value for name, value in variables.items() if _TRANSPORT.fullmatch(name)}
    return IndexSettings(pip=pip, npm=npm, transport=transport)


def _pip_variable(key: str) -> str:
    return "PIP_" + key.upper().replace("-", "_")


def _iter_pip_files(variables: Mapping[str, str], home: Path) -> Iterator[tuple[str, str]]:
    """Settings in the order in which later ones win."""
    configured = variables.get("PIP_CONFIG_FILE", "")
    if configured == "/dev/null":
        return
    user = Path(variables.get("XDG_CONFIG_HOME", home / ".config")) / "pip/pip.conf"
    paths = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", user]
    for path in [*paths, *([Path(configured)] if configured else [])]:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(_read(path))
        except configparser.Error as error:
            raise PACKAGE_BUILD_FAILED.error(
                f"{path}: expected pip's configuration, found: {error}"
            ) from error
        for section in ("global", "install"):
            for key in _PIP_KEYS:
                if parser.has_option(section, key):
                    yield _pip_variable(key), " ".join(parser.get(section, key).split())


def _iter_npmrc(path: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for line in _read(path).splitlines():
        key, mark, value = (part.strip() for part in line.partition("="))
        if mark and _NPM_KEYS.fullmatch(key):
            yield key, re.sub(r"\$\{(\w+)\}", lambda match: variables.get(match[1], ""), value)


def read_log(path: Path) -> str:
    """The end of a log; nothing if there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _MAX_LOG_BYTES))
            return stream.read(_MAX_LOG_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MAX_FILE_BYTES)
    except OSError:
        return ""


_SHOWN = 120
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"\s*(?P<extras>\[[A-Za-z0-9._, -]*\])?"
    r"\s*==\s*(?P<version>[0-9A-Za-z.!+_-]+)"
    r"\s*(?:;\s*(?P<marker>[^;#\\]+?))?",
    re.ASCII,
)
_HASHES = re.compile(r"\s--hash[= ]")
_HASH = re.compile(r"sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One locked package."""

    name: str
    extras: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def parse_requirements(data: bytes, name: str) -> tuple[Requirement, ...]:
    """Read a lock; every line that is not a pinned package is named.

    Raises:
        PACKAGE_LOCK_INVALID: a line is something else.
        PACKAGE_HASH_MISSING: a package has no hash.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PACKAGE_LOCK_INVALID.error(f"{name}: expected UTF-8 text, found: {error.reason}") from error
    requirements, wrong, bare = [], [], []
    for number, line in _iter_logical_lines(text):
        specification, *hashes = (part.strip() for part in _HASHES.split(line))
        match = _REQUIREMENT.fullmatch(specification)
        if match is None or not all(_HASH.fullmatch(item) for item in hashes):
            wrong.append(f"line {number}: {neutralize(line, max_characters=_SHOWN)}")
        elif not hashes:
            bare.append(f"line {number}: {match['name']}")
        else:
            requirements.append(
                Requirement(
                    name=match["name"],
                    extras=(match["extras"] or "").replace(" ", ""),
                    version=match["version"],
                    marker=match["marker"] or "",
                    hashes=tuple(sorted(set(hashes))),
                )
            )
    if wrong:
        raise PACKAGE_LOCK_INVALID.error(
            f"{name}: expected only lines such as `name==1.0 --hash=sha256:…`, found {'; '.join(wrong)}"
        )
    if bare:
        raise PACKAGE_HASH_MISSING.error(
            f"{name}: expected a hash for every package, found {'; '.join(bare)}"
        )
    return tuple(requirements)


def render_requirements(requirements: tuple[Requirement, ...]) -> str:
    """The same lock in one spelling, for the installer."""
    lines = []
    for item in requirements:
        marker = f" ; {item.marker}" if item.marker else ""
        hashes = "".join(f" --hash={value}" for value in item.hashes)
        lines.append(f"{item.name}{item.extras}=={item.version}{marker}{hashes}\n")
    return "".join(lines)


def _iter_logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones joined, with the number of the first."""
    pending, start = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw.rstrip("\r"))
        start = start if pending else number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        if joined := (pending + line).strip():
            yield start, joined
        pending = ""
    if joined := pending.strip():
        yield start, joined
