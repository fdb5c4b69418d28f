"""`complexity.json` beside a contract: proxies for how hard a repository is, measured and dated (C14)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal

import msgspec
import orjson

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._types import StrictDocument

_NOTE: Final = "Proxies: they describe the repository, not how hard the task is."

COMPLEXITY_INVALID = ErrorCode(
    "complexity-invalid",
    ContractError,
    "A complexity.json is not what `contract complexity` writes.",
    hint="measure again with `repotrial contract complexity`",
)


class GraphSize(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="graph"):
    """The size of a graph."""

    nodes: Count
    """Modules or packages."""
    edges: Count | NotComputable
    """Imports, or requirements."""
    depth: Count | NotComputable
    """Edges of the longest chain, cycles counted as one node."""


class Complexity(StrictDocument, frozen=True, kw_only=True):
    """All of `complexity.json`."""

    FILE: ClassVar = "complexity.json"

    schema: Literal["repotrial/complexity@1"] = "repotrial/complexity@1"
    """Which version of this format."""
    note: str = _NOTE
    """What the figures are."""
    contract_id: str
    """The contract's id."""
    version_id: Digest
    """The version that was measured."""
    measured_at_us: Count
    """When, in microseconds since 1970."""
    tokens: Count
    """Words and signs of all text files: a proxy for the tokens of any model."""
    files: dict[str, Count]
    """Files by language, by their suffix."""
    lines: dict[str, Count]
    """Lines by language that are not blank."""
    imports: GraphSize | NotComputable
    """Modules of the repository that import each other."""
    dependencies: GraphSize | NotComputable
    """Packages that the contract's environment installs."""
    test_us: Count | NotComputable
    """Time that all checks took on the reference change, once, on the machine that measured."""

    @property
    def digest(self) -> Digest:
        """Over the file."""
        return digest_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """As a file."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(msgspec.to_builtins(self), option=options)

    @classmethod
    def load(cls, directory: Path) -> Complexity | None:
        """What was measured of a contract; None if nothing was.

        Raises:
            COMPLEXITY_INVALID: the file is not one.
        """
        path = directory / cls.FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise COMPLEXITY_INVALID.error(f"{path}: expected a measurement, found: {error}") from error
