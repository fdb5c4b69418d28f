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
    contract = build_document_schema(Contract, "contract@1", title="contract.toml")
    return {
        "contract.schema.json": rewrite_schema(contract, _drop_null),
        "inventory.schema.json": build_document_schema(
            Inventory, "inventory@1", title="Inventory of a check"
        ),
        "lock.schema.json": build_document_schema(ContractLock, "lock@1", title="contract.lock.json"),
    }


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in schema.items() if value is not None}  # defaults, and inside them
    alternatives = schema.get("anyOf")
    if not isinstance(alternatives, list) or {"type": "null"} not in alternatives:
        return schema
    kept = [alternative for alternative in alternatives if alternative != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept[0], **rest} if len(kept) == 1 else {"anyOf": kept, **rest}
