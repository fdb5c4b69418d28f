"""Rules about secrets: named in the contract, given by the operator, never written down (C3)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from repotrial.contract._contract import CONTRACT_FILE, GitRepository
from repotrial.contract._lint._subject import Finding, Subject, rule

_SECRET_NAME = re.compile(
    r"(?:^|_|^PG)(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|CREDENTIALS?|APIKEY"
    r"|(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|AUTH|SERVICE|MASTER)_?KEY)(?:_|$)|_AUTH$",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(r"(?:^|_)KEY$", re.IGNORECASE)
_MIN_KEY_CHARS = 16  # SORT_KEY=name is no secret
_KNOWN_TOKEN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[A-Za-z0-9_-]{16,}|\b[rs]k_(?:live|test)_\w{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"
    r"|\bxox[abeoprs]-[\w-]{10,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{20,}|\bhf_[A-Za-z0-9]{20,}"
    r"|\bdop_v1_[0-9a-f]{20,}|\bshpat_[0-9a-fA-F]{20,}|\bSG\.[\w-]{16,}\.[\w-]{16,}"
    r"|\beyJ[\w-]{8,500}\.eyJ[\w-]{8,}\.[\w-]+"
)
# Bounded, so that a long line without a URL is read in linear time.
_URL_PASSWORD = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://([^/\s:@]{0,200}):([^/\s@]{1,500})@", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\s*(?:$|[$/]|\.{1,2}/|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\s*$)")
# fmt: off
_STAND_IN_WORDS = frozenset({
    "a", "admin", "change", "changeme", "ci", "database", "db", "debug", "default", "dev", "development",
    "django", "dummy", "empty", "example", "fake", "false", "for", "guest", "insecure", "key", "local",
    "localhost", "me", "mysql", "no", "none", "not", "null", "off", "on", "only", "password",
    "placeholder", "postgres", "redis", "root", "secret", "test", "testing", "tests", "this", "token",
    "true", "unsafe", "unused", "user", "value", "yes",
})
# fmt: on
_MAX_STAND_IN_DIGITS = 6
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_HEX = re.compile(r"[0-9a-fA-F-]+")
_JOINT = re.compile(r"[-_/=+]")
_MIXED = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).*")
_WORD = re.compile(r"[A-Za-z]+\d{1,4}")
_MIN_BITS = 4.0


@rule(
    "secret-in-variables",
    "error",
    example="""
    [environment.variables]
    REGISTRY_TOKEN = "c2VjdXJlLXRva2VuLXZhbHVl"
    """,
)
def secret_in_variables(subject: Subject) -> Iterator[Finding]:
    """A variable seems to hold a secret.

    Why: contracts are published and hashed; a secret in one is a secret no more. Looked at are the name
    (`…_TOKEN`, `…_PASSWORD`, `…_KEY`), the prefixes of well-known tokens, private keys, and values too random
    to be words. Stand-ins made of nothing but words such as `postgres` or `dummy-token`, paths and references
    to other variables are let through.

    Fix: declare the name under `[[environment.secrets]]` and let the operator give the value; revoke what
    was published.
    """
    for table, variables in _iter_variables(subject):
        for name, value in variables.items():
            reason = _suspicion(name, value)
            if reason is not None:
                yield Finding(
                    field=f"{table}.{name}",
                    message=f"expected no secret in a variable, found {reason} ({len(value)} characters, "
                    "not shown)",
                    hint="declare it under [[environment.secrets]], and revoke the value if it was real",
                )


def _iter_variables(subject: Subject) -> Iterator[tuple[str, Mapping[str, str]]]:
    contract = subject.contract
    yield "environment.variables", contract.environment.variables
    for index, service in enumerate(contract.environment.services):
        yield f"environment.services[{index}].variables", service.variables
    for index, step in enumerate(contract.setup):
        yield f"setup[{index}].variables", step.variables
    for field, check in subject.iter_checks():
        yield f"{field}.variables", check.variables
        for place, runner in enumerate(check.runners):
            yield f"{field}.runners[{place}].variables", runner.variables


def _suspicion(name: str, value: str) -> str | None:
    known = _known_secret(value)
    if known is not None:
        return known
    if any(_is_random(run) for run in _RUN.findall(value)):
        return "a value that looks random"
    if _names_a_secret(name, value) and not _is_stand_in(value):
        return f"a value under the name {name}"
    return None


def _names_a_secret(name: str, value: str) -> bool:
    is_key = bool(_KEY_NAME.search(name)) and len(value) >= _MIN_KEY_CHARS
    return is_key or bool(_SECRET_NAME.search(name))


def _known_secret(text: str) -> str | None:
    if _KNOWN_TOKEN.search(text):
        return "a private key" if "PRIVATE KEY" in text else "a token of a well-known form"
    if any(password != user and not _is_stand_in(password) for user, password in _URL_PASSWORD.findall(text)):
        return "a password in a URL"
    return None


def _is_stand_in(value: str) -> bool:
    """Whether a value is no secret on its face: nothing, a path, a dotted name, a reference, plain words."""
    if _ELSEWHERE.match(value):
        return True
    words = re.findall(r"[^\W\d_]+", value.casefold())
    digits = sum(char.isdigit() for char in value)
    return digits <= _MAX_STAND_IN_DIGITS and all(word in _STAND_IN_WORDS for word in words)


def _is_random(run: str) -> bool:
    """Whether characters have the entropy of a key; digests, paths and words in a row are no secrets."""
    if _HEX.fullmatch(run) or run.startswith("/"):
        return False
    mixed = [part for part in _JOINT.split(run) if _MIXED.fullmatch(part) and not _WORD.fullmatch(part)]
    if 2 * sum(map(len, mixed)) < len(run):
        return False
    counts = Counter(run)
    return -sum(n / len(run) * math.log2(n / len(run)) for n in counts.values()) >= _MIN_BITS


@rule(
    "secret-in-text",
    "error",
    example="""
    [[setup]]
    run = "git clone https://bot:kR7pX2vQ@git.example.org/data.git"
    timeout_seconds = 60
    """,
)
def secret_in_text(subject: Subject) -> Iterator[Finding]:
    """A command, a source or the statement seems to hold a secret.

    Why: the same as in variables, and commands are also written into the trace.

    Fix: take it out, use a declared secret by its variable, and revoke what was published.
    """
    for file, field, line, text in _iter_texts(subject):
        reason = _known_secret(text)
        if reason is not None:
            yield Finding(
                file=file,
                field=field,
                line=line,
                message=f"expected no secret, found {reason} (not shown)",
                hint="take it out, and revoke it if it was real",
            )


def _iter_texts(subject: Subject) -> Iterator[tuple[str, str, int | None, str]]:
    for shown in subject.shown:
        for index, line in enumerate(shown.text.split("\n")):
            yield shown.file, shown.field, shown.line_number(index), line
    for field, text in (*_iter_sources(subject), *_iter_commands(subject)):
        if text is not None:
            yield CONTRACT_FILE, field, None, text


def _iter_sources(subject: Subject) -> Iterator[tuple[str, str | None]]:
    repository = subject.contract.repository
    yield "repository.source", repository.source
    if isinstance(repository, GitRepository):
        for index, submodule in enumerate(repository.submodules):
            yield f"repository.submodules[{index}].source", submodule.source
    for index, artifact in enumerate(subject.contract.environment.artifacts):
        yield f"environment.artifacts[{index}].source", artifact.source


def _iter_commands(subject: Subject) -> Iterator[tuple[str, str | None]]:
    for index, service in enumerate(subject.contract.environment.services):
        yield f"environment.services[{index}].run", service.run
        yield f"environment.services[{index}].initialize", service.initialize
    for index, step in enumerate(subject.contract.setup):
        yield f"setup[{index}].run", step.run
    for field, check in subject.iter_checks():
        yield f"{field}.run", check.run
        for place, runner in enumerate(check.runners):
            yield f"{field}.runners[{place}].run", runner.run


@rule(
    "secret-shown-to-agent",
    "warning",
    example="""
    [[environment.secrets]]
    name = "LICENSE_KEY"
    reason = "the compiler asks for it"
    phases = ["act"]
    """,
)
def secret_shown_to_agent(subject: Subject) -> Iterator[Finding]:
    """A secret is visible while the agent acts.

    Why: what the agent can read, it can print, send or store; the trace redacts the value, other ways out
    do not.

    Fix: keep `act` out of `phases` unless the work cannot be done without the secret, and use one that is
    worthless elsewhere.
    """
    for index, secret in enumerate(subject.contract.environment.secrets):
        if "act" in secret.phases:
            yield Finding(
                field=f"environment.secrets[{index}].phases",
                message=f"expected {secret.name} to be hidden from the agent, found 'act' among its phases",
                hint="give it to setup or accept only",
            )


RULES = (secret_in_variables, secret_in_text, secret_shown_to_agent)
