"""An agent as data: `repotrial/agent@1`, a TOML document that says how to get and to start one program.

Nothing about an agent is code. What it asks a model, the gateway sees; what it does, the sandbox sees; so all
that is left is the recipe, the command line, a few files, and where it keeps its own transcripts.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from repotrial._core.schema import build_document_schema
from repotrial.contract import StrictDocument
from repotrial.wire import Dialect

ADAPTER_SCHEMA: Final = "repotrial/agent@1"

AdapterName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$(?!\n)",
        max_length=60,
        extra={"expected": "a name of lower-case letters and digits, joined by single '-', '_' or '.'"},
    ),
]
_Words = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
_Template = Annotated[
    str,
    msgspec.Meta(max_length=100_000, extra={"expected": "text with placeholders such as {url} or {model}"}),
]
_NpmPackage = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*@[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$(?!\n)",
        max_length=300,
        extra={"expected": "a package with its exact version, such as '@scope/name@1.2.3'"},
    ),
]
_PypiRequirement = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[0-9][0-9A-Za-z.!+]*$(?!\n)",
        max_length=300,
        extra={"expected": "a distribution with its exact version, such as 'name==1.2.3'"},
    ),
]
_Constraint = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\s*(==|>=|<=|>|<|~=|!=)\s*[0-9][0-9A-Za-z.+-]*(\s*,\s*(==|>=|<=|>|<|~=|!=)\s*[0-9][0-9A-Za-z.+-]*)*\s*$(?!\n)",
        extra={"expected": "version constraints such as '>=3.11' or '>=20,<23'"},
    ),
]
_InnerPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?!/)(?!.*(^|/)\.\.?(/|$))[^\\\x00-\x1f]+$(?!\n)",
        max_length=300,
        extra={"expected": "a relative path without '..'"},
    ),
]
_Platform = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]+-[a-z0-9_]+-cp[0-9]+$(?!\n)",
        extra={"expected": "a platform and an interpreter, such as 'linux-x86_64-cp312'"},
    ),
]
_FileName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$(?!\n)",
        max_length=100,
        extra={"expected": "the name of a file beside the adapter"},
    ),
]
_VariableName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
        max_length=200,
        extra={"expected": "the name of an environment variable"},
    ),
]

Quirk: TypeAlias = Literal[
    "exit-0-on-error",
    "keeps-retrying",
    "login-shell",
    "leaves-daemon",
    "no-tools",
    "no-stream",
    "side-requests",
    "looks-up-hosts",
    "writes-in-workspace",
]
"""What a reader of its runs has to know; `docs/how-to/add-an-agent.md` says what each means."""


class NpmRecipe(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="npm"):
    """Packages of an npm registry."""

    packages: Annotated[tuple[_NpmPackage, ...], msgspec.Meta(min_length=1)]
    """With exact versions; the first one is the agent."""
    node: _Constraint
    """Which Node.js may install it and, where `has_node`, runs it."""
    program: Annotated[tuple[_InnerPath, ...], msgspec.Meta(min_length=1)]
    """Where the program is in the installed tree; the first that is there counts."""
    has_node: bool = True
    """Whether the program is started by Node.js; otherwise it is an executable of its own."""
    lock: _FileName | None = None
    """A `package-lock.json` for exactly these packages; left out: npm chooses what they depend on."""
    scripts: bool = False
    """Whether install scripts run: in a sandbox, without network."""


class PypiRecipe(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="pypi"):
    """Distributions of a Python package index."""

    requirements: Annotated[tuple[_PypiRequirement, ...], msgspec.Meta(min_length=1)]
    """With exact versions; the first one is the agent."""
    python: _Constraint
    """Which interpreter installs and runs it."""
    program: Annotated[tuple[_InnerPath, ...], msgspec.Meta(min_length=1)]
    """Where the program is in the installed tree; the first that is there counts."""
    locks: dict[_Platform, _FileName] = msgspec.field(default_factory=dict)
    """By platform and interpreter, such as `linux-x86_64-cp312`: requirements with hashes, all that it needs.

    Elsewhere pip chooses what they depend on.
    """
    left_out: tuple[_Words, ...] = ()
    """Distributions that it asks for and does without, such as one that has no wheels; no lock holds them."""


class HostRecipe(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="host"):
    """Nothing to install: a program of the environment in which the agent works."""

    program: Annotated[tuple[_Words, ...], msgspec.Meta(min_length=1)]
    """Its name or absolute path inside the sandbox; the first counts."""
    version: _Words = "unknown"
    """What reports call it."""


Recipe: TypeAlias = NpmRecipe | PypiRecipe | HostRecipe
"""How to get a program."""


class AdapterLaunch(StrictDocument, frozen=True, kw_only=True):
    """How to start it. All values are templates."""

    argv: Annotated[tuple[_Template, ...], msgspec.Meta(min_length=1)]
    """The command line; `{program}` is the installed program."""
    prepare: tuple[tuple[_Template, ...], ...] = ()
    """Command lines that run before it, in the same sandbox; each must succeed."""
    probe: Annotated[tuple[_Template, ...], msgspec.Meta(min_length=1)] = ("{program}", "--version")
    """A command line that ends well, without a model, wherever the program can run."""
    variables: dict[_VariableName, _Template] = msgspec.field(default_factory=dict)
    """Beside those that every agent gets."""
    files: dict[_InnerPath, _Template] = msgspec.field(default_factory=dict)
    """Path in the home directory to text."""


class AdapterCaps(StrictDocument, frozen=True, kw_only=True):
    """How the agent bounds itself. The gateway's own bounds hold in any case."""

    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    """What `{retries}` becomes: how often it asks again after an error, where it can be told."""
    context_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] | None = None
    """What `{context_tokens}` becomes: how long a request it takes its model to read. The record has it as
    the agent's context limit; left out where the agent cannot be told, and is not known to have one."""
    turns: tuple[_Template, ...] = ()
    """Arguments that bound its turns, with `{turns}`; empty where it cannot be told."""


class StdoutTranscript(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="stdout"):
    """What it prints."""

    importer: _Words | None = None
    """The importer that reads it; left out: it is kept, and not read."""


class FileTranscript(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="files"):
    """Files that it writes in its home."""

    pattern: _InnerPath
    """Relative to its home; `*` stops at a slash, `**` does not."""
    importer: _Words | None = None
    """The importer that reads them; left out: they are kept, and not read."""
    is_joined: bool = False
    """Whether files of one directory are one transcript: a JSON document each, ordered by their names."""


Transcript: TypeAlias = StdoutTranscript | FileTranscript


class Adapter(StrictDocument, frozen=True, kw_only=True):
    """One agent."""

    schema: Literal["repotrial/agent@1"]
    """Which document this is."""
    name: AdapterName
    """How commands and reports call it."""
    title: _Words
    """How people call it."""
    license: _Words
    """Its terms: an SPDX expression, or a note that it is proprietary."""
    tested_version: _Words
    """The version that this recipe was seen to work with."""
    dialect: Dialect
    """The wire format in which it asks its model."""
    model: _Words
    """The model's name, unless told otherwise."""
    install: Recipe
    """How to get it."""
    launch: AdapterLaunch
    """How to start it."""
    caps: AdapterCaps = AdapterCaps()
    """How it bounds itself."""
    strips: tuple[_Words, ...] = ()
    """Hosted tools that the gateway takes out of its requests, such as `web_search`: for an agent that cannot
    be told not to offer them. Without this, such a request is refused."""
    transcripts: tuple[Transcript, ...] = ()
    """What it writes about its own work."""
    quirks: tuple[Quirk, ...] = ()
    """What to know about it."""
    needs: tuple[_Words, ...] = ()
    """Programs that it wants in its environment, such as `git`."""
    notes: tuple[_Words, ...] = ()
    """Anything else, in sentences."""


def build_adapter_schema() -> dict[str, Any]:
    """The schema of `repotrial/agent@1`."""
    return build_document_schema(Adapter, "agent@1", title="Adapter of an agent")
