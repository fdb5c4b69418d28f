"""The version id: one digest over what a contract promises (C11; ADR 0003).

In the id are R, E, Setup, Oracle and Policy (limits are policy, C7): each value, decimals in one spelling,
and the bytes and the executable bit of every file that is named, at the place where it is named. So moving an
oracle file is a change, and so is the order of checks; the order of keys, comments and the style of tables
are not.

A field that has its default value is left out, written or not. A release that adds an optional field
therefore leaves every id as it was. The price: within a major, a default never changes (a test holds them).

Not in the id:

- what describes and grades: `id`, `kind`, `labels`, `ecosystem`; and, with digests of their own in the lock,
  what the agent is told (`title`, `clarify`, the statement), the reference and `scoring`;
- where the repository comes from and what else only leads to it: `source`, `protocols`, the overrides for
  submodules, the digest that an author may state for an archive. R is what they resolve to (commit, submodule
  commits, archive digest, tree digest), so that a mirror gives the same R.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import inspect as mi

from repotrial._core.canonical import JsonValue, canonical_digest, decimal_text
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._contract import Contract, ContractLock, FilePin, PartDigests, RepositoryPin
from repotrial.contract._rules_files import pins_below
from repotrial.contract._types import StrictDocument

VERSION_DOMAIN = "repotrial/contract-version@1"
_STATEMENT_DOMAIN = "repotrial/statement@1"
_SCORING_DOMAIN = "repotrial/scoring@1"

_ORIGIN_FIELDS = ("source", "protocols", "submodules", "digest")

_Pins: TypeAlias = Sequence[FilePin]


def canonical_parts(
    contract: Contract, *, pin: RepositoryPin, files: Sequence[FilePin]
) -> dict[str, JsonValue]:
    """The five parts as canonical values."""
    fields = {field.name: field.type for field in _fields(Contract)}
    files = sorted(files, key=lambda file: file.path)
    written = {
        name: _canonical(getattr(contract, name), fields[name], files)
        for name in ("repository", "environment", "setup", "checks", "policy", "limits")
    }
    return {
        "repository": _repository(written["repository"], pin),
        "environment": written["environment"],
        "setup": written["setup"],
        "oracle": written["checks"],
        "policy": {"policy": written["policy"], "limits": written["limits"]},
    }


def build_part_digests(parts: Mapping[str, JsonValue]) -> PartDigests:
    """One digest for each part; the part's name is in it."""
    return PartDigests(
        **{
            name: canonical_digest({"domain": VERSION_DOMAIN, "part": name, "value": value})
            for name, value in parts.items()
        }
    )


def compute_version_id(contract: Contract, *, pin: RepositoryPin, files: Sequence[FilePin]) -> Digest:
    """The version id of a contract with these pins."""
    return version_of_parts(build_part_digests(canonical_parts(contract, pin=pin, files=files)))


def compute_statement_digest(contract: Contract, statement: str) -> Digest:
    """Digest over all that the agent is told (P6, P30): title, statement, clarification."""
    clarify = _canonical(contract.clarify, mi.type_info(type(contract.clarify)), ())
    told: JsonValue = {"title": contract.title, "statement": statement, "clarify": clarify}
    return canonical_digest({"domain": _STATEMENT_DOMAIN, "value": told})


def compute_scoring_digest(contract: Contract) -> Digest:
    """Digest over the parameters of the score: two scores of one version compare only where they agree."""
    scoring = _canonical(contract.scoring, mi.type_info(type(contract.scoring)), ())
    return canonical_digest({"domain": _SCORING_DOMAIN, "value": scoring})


def version_of_parts(parts: PartDigests) -> Digest:
    """The version id over the digests of the parts."""
    return canonical_digest({"domain": VERSION_DOMAIN, "parts": msgspec.structs.asdict(parts)})


@lru_cache(maxsize=8)
def _fields(model: type[msgspec.Struct]) -> tuple[mi.Field, ...]:
    info = mi.type_info(model)
    assert isinstance(info, mi.StructType)
    return info.fields


def _repository(written: JsonValue, pin: RepositoryPin) -> JsonValue:
    assert isinstance(written, dict)
    kept = {name: value for name, value in written.items() if name not in _ORIGIN_FIELDS}
    submodules: list[JsonValue] = [
        {"path": module.path, "commit": module.commit}
        for module in sorted(pin.submodules, key=lambda module: module.path)
    ]
    return {
        **kept,
        "pin": {
            "tree_digest": pin.tree_digest,
            "commit": pin.commit,
            "submodules": submodules,
            "archive_digest": pin.archive_digest,
        },
    }


def _canonical(value: Any, info: mi.Type, files: _Pins) -> JsonValue:
    match info:
        case mi.Metadata(type=inner, extra=extra):
            if (extra or {}).get("tree") == "contract" and (extra or {}).get("is_pinned"):
                return _with_files(value, files)
            return _canonical(value, inner, files)
        case mi.StructType():
            return _canonical_struct(value, info, files)
        case mi.UnionType(types=types):
            return _canonical(value, _chosen(value, types), files)
        case mi.VarTupleType(item_type=item):
            return [_canonical(each, item, files) for each in value]
        case mi.DictType(value_type=item):
            return {key: _canonical(each, item, files) for key, each in value.items()}
        case mi.DecimalType():
            return decimal_text(Decimal(value))
        case _:
            assert isinstance(value, (bool, int, str))
            return value


def _canonical_struct(value: Any, info: mi.StructType, files: _Pins) -> JsonValue:
    values = [(field, getattr(value, field.name)) for field in info.fields]
    written: dict[str, JsonValue] = {
        field.encode_name: _canonical(item, field.type, files)
        for field, item in values
        if item != _default(field)
    }
    if info.tag_field is not None:
        written[info.tag_field] = str(info.tag)
    return written


def _default(field: mi.Field) -> object:
    """What the field is where it is left out; something equal to nothing where it is required."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _with_files(path: str, files: _Pins) -> JsonValue:
    pinned: list[JsonValue] = [
        {"path": pin.path, "digest": pin.digest, "is_executable": pin.is_executable}
        for pin in pins_below(path, files)
    ]
    return {"path": path, "files": pinned}


def _chosen(value: object, types: tuple[mi.Type, ...]) -> mi.Type:
    """The alternative of a union that a value is of; the models have at most one that is not a table."""
    structs = [option for option in types if isinstance(option, mi.StructType)]
    others = [option for option in types if not isinstance(option, (mi.StructType, mi.NoneType))]
    return next((option for option in structs if isinstance(value, option.cls)), *others[:1])


CONTRACT_RECORD_SCHEMA = "repotrial/contract-record@1"


CONTRACT_RECORD = ErrorCode(
    "contract-record",
    ContractError,
    "A run's copy of its contract cannot be read, or is not the contract that its lock pins.",
    hint="take the run directory as the harness sealed it; nothing in it may be edited",
)


class ContractRecord(StrictDocument, frozen=True, kw_only=True):
    """All of `contract.json` in a run directory."""

    schema: Literal["repotrial/contract-record@1"] = "repotrial/contract-record@1"
    """Which version of this format."""
    contract: Contract
    """The contract."""
    lock: ContractLock
    """What it was locked to."""

    def to_bytes(self) -> bytes:
        """The record as a file; `parse_record` reads it back."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1) + b"\n"


def parse_record(data: bytes) -> ContractRecord:
    """Read a record and hold it against its own lock.

    Raises:
        CONTRACT_RECORD: the bytes are no record, or contract and lock do not belong together.
    """
    try:
        record = msgspec.json.decode(data, type=ContractRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CONTRACT_RECORD.error(
            f"expected a {CONTRACT_RECORD_SCHEMA} document, found: {error}"
        ) from error
    lock = record.lock
    found = compute_version_id(record.contract, pin=lock.repository, files=lock.files)
    if found != lock.version_id:
        raise CONTRACT_RECORD.error(f"expected the contract version {lock.version_id}, found {found}")
    scoring = compute_scoring_digest(record.contract)
    if scoring != lock.scoring_digest:
        raise CONTRACT_RECORD.error(f"expected the scoring parameters {lock.scoring_digest}, found {scoring}")
    return record
