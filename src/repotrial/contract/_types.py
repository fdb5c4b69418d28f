r"""The small types that contract documents are made of.

A constrained string carries, in `extra`, what was expected in words (`expected`) and, for paths, which tree
it is relative to (`tree`): the loader turns both into messages and checks. A path beside the contract also
says what must be there (`entry`, `max_bytes`), whether its bytes enter the version id (`is_pinned`), and
whether it may be missing (`may_be_absent`).

Patterns end in a look-ahead, since `$` alone lets a final newline pass and editors do not know `\Z`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

import msgspec


class StrictDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of a document of ours: immutable, and strict about its keys."""


MEBIBYTE = 2**20

# A relative POSIX path that stays where it is: no root, drive, `..`, backslash or control character.
_RELATIVE = r"^(?!/)(?!.*(^|/)\.\.(/|$))(?![A-Za-z]:)[^\\\x00-\x1f]+$(?!\n)"

Identifier = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$(?!\n)",
        max_length=100,
        extra={"expected": "a name of lower-case letters and digits, joined by single '-', '_' or '.'"},
    ),
]


def _beside_contract(
    entry: Literal["file", "directory", "any"],
    *,
    max_bytes: int = 64 * MEBIBYTE,
    is_pinned: bool = True,
    may_be_absent: bool = False,
) -> msgspec.Meta:
    return msgspec.Meta(
        pattern=_RELATIVE,
        max_length=1000,
        extra={
            "expected": "a relative path that stays inside the contract directory",
            "tree": "contract",
            "entry": entry,
            "max_bytes": max_bytes,
            "is_pinned": is_pinned,
            "may_be_absent": may_be_absent,
        },
    )


ContractPath = Annotated[str, _beside_contract("file")]
"""A file beside `contract.toml`; its bytes enter the version id."""

OverlayPath = Annotated[str, _beside_contract("any")]
"""Oracle files: one, or a directory of them."""

InventoryPath = Annotated[str, _beside_contract("file", max_bytes=16 * MEBIBYTE)]
"""A JSON file of test ids."""

StatementPath = Annotated[str, _beside_contract("file", max_bytes=MEBIBYTE // 4, is_pinned=False)]
"""Text for the agent: compared beside the version id, not part of it (P30)."""

ReferencePath = Annotated[str, _beside_contract("file", is_pinned=False)]
"""A patch that satisfies the contract."""

RecordingPath = Annotated[str, _beside_contract("any")]
"""Recorded network exchanges."""

FutureRecordingPath = Annotated[str, _beside_contract("any", may_be_absent=True)]
"""Recorded network exchanges, which the first run may still have to make."""

ImageArchivePath = Annotated[str, _beside_contract("file", max_bytes=16 * 1024 * MEBIBYTE)]
"""A file with an image in it: an `oci-archive`, or what `docker save` writes."""

ImageLayoutPath = Annotated[str, _beside_contract("directory", is_pinned=False)]
"""An OCI layout: addressed by the manifest digest beside it."""

SnapshotArchivePath = Annotated[
    str, _beside_contract("file", max_bytes=16 * 1024 * MEBIBYTE, is_pinned=False)
]
"""An archive of the repository: pinned by its own digest and the tree digest."""

SnapshotDirectoryPath = Annotated[str, _beside_contract("directory", is_pinned=False)]
"""A directory that is the repository: pinned by its tree digest."""

WorkspacePath = Annotated[
    str,
    msgspec.Meta(
        pattern=_RELATIVE,
        max_length=1000,
        extra={"expected": "a relative path that stays inside the workspace", "tree": "workspace"},
    ),
]
"""A path in the repository under trial."""

SandboxPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^/(?!.*(^|/)\.\.(/|$))[^\\\x00-\x1f]*$(?!\n)",
        max_length=1000,
        extra={"expected": "an absolute path inside the sandbox", "tree": "sandbox"},
    ),
]
"""A path as programs in the sandbox see it."""

AnyPath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?!.*(^|/)\.\.(/|$))[^\\\x00-\x1f]+$(?!\n)",
        max_length=1000,
        extra={"expected": "a path inside the workspace, or an absolute one inside the sandbox"},
    ),
]

Glob = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^!?(?!/)(?!.*(^|/)\.\.(/|$))[^\\\x00-\x1f]+$(?!\n)",
        max_length=1000,
        extra={"expected": "a glob relative to the workspace root ('**' crosses directories)"},
    ),
]

EnvName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
        max_length=200,
        extra={"expected": "the name of an environment variable"},
    ),
]

CommitId = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)",
        extra={"expected": "a full commit hash (40 or 64 hex digits), not a branch, tag or short hash"},
    ),
]

ToolName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$(?!\n)",
        max_length=100,
        extra={"expected": "the name of a program, such as 'python' or 'g++'"},
    ),
]

HostName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[^\s/@\x00-\x1f]+$(?!\n)",
        max_length=300,
        extra={"expected": "a host name, with ':port' where it is needed, without scheme and path"},
    ),
]

ToolConstraint = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\s*(==|>=|<=|>|<|~=|!=)\s*[0-9][0-9A-Za-z.+-]*(\s*,\s*(==|>=|<=|>|<|~=|!=)\s*[0-9][0-9A-Za-z.+-]*)*\s*$(?!\n)",
        extra={"expected": "version constraints such as '>=3.11' or '>=20,<23'"},
    ),
]

Shell = Annotated[
    str, msgspec.Meta(min_length=1, max_length=20_000, extra={"expected": "a shell command line"})
]
"""A command line for `bash -euo pipefail -c` inside the sandbox."""

Seconds = Annotated[
    int, msgspec.Meta(ge=1, le=7 * 24 * 3600, extra={"expected": "whole seconds from 1 to 604800 (a week)"})
]
Megabytes = Annotated[
    int, msgspec.Meta(ge=1, le=2**31, extra={"expected": "whole megabytes from 1 to 2147483648"})
]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
NonNegative = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]

Usd: TypeAlias = Decimal
"""US dollars, exact."""

Share: TypeAlias = Decimal
"""A weight or a fraction, exact."""
