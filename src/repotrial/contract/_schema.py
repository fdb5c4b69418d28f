"""JSON Schemas of the contract's documents.

TOML has no null, so that an optional key of a contract is simply absent; decimals may be written as numbers
or as strings.
"""

from __future__ import annotations

from typing import Any

from repotrial._core.schema import build_document_schema, rewrite_schema
from repotrial.contract._contract import Contract, ContractLock
from repotrial.contract._oracle import Inventory


def build_schemas() -> dict[str, dict[str, Any]]:
    """Every schema, by the name of its file in `schemas/`."""
    return {
        "contract.schema.json": build_contract_schema(),
        "inventory.schema.json": build_inventory_schema(),
        "lock.schema.json": build_lock_schema(),
    }


def build_contract_schema() -> dict[str, Any]:
    """The schema of `contract.toml`."""
    schema: dict[str, Any] = rewrite_schema(
        build_document_schema(Contract, "contract@1", title="contract.toml"), _drop_null
    )
    return schema


def build_lock_schema() -> dict[str, Any]:
    """The schema of `contract.lock.json`."""
    return build_document_schema(ContractLock, "lock@1", title="contract.lock.json")


def build_inventory_schema() -> dict[str, Any]:
    """The schema of an inventory of test ids."""
    return build_document_schema(Inventory, "inventory@1", title="Inventory of a check")


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in schema.items() if value is not None}  # defaults, and inside them
    alternatives = schema.get("anyOf")
    if not isinstance(alternatives, list) or {"type": "null"} not in alternatives:
        return schema
    kept = [alternative for alternative in alternatives if alternative != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept[0], **rest} if len(kept) == 1 else {"anyOf": kept, **rest}
