"""JSON Schemas of the contract's documents.

TOML has no null, so that an optional key of a contract is simply absent; decimals may be written as numbers
or as strings.
"""

from __future__ import annotations

from typing import Any

from repotrial._core.schema import build_document_schema, rewrite_schema
from repotrial.contract._contract import Contract, ContractLock
from repotrial.contract._oracle import Inventory
from repotrial.contract._spellings import IMAGE_PATTERN


def build_schemas() -> dict[str, dict[str, Any]]:
    """Every schema, by the name of its file in `schemas/`."""
    contract = build_document_schema(Contract, "contract@2", title="contract.toml")
    return {
        "contract.schema.json": rewrite_schema(rewrite_schema(contract, _drop_null), _add_image_word),
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


def _add_image_word(schema: dict[str, Any]) -> dict[str, Any]:
    """An image may be written in one word, which the model never sees."""
    alternatives = schema.get("anyOf")
    if not isinstance(alternatives, list) or alternatives[:1] != [{"enum": ["host"]}]:
        return schema
    return {**schema, "anyOf": [*alternatives, {"type": "string", "pattern": IMAGE_PATTERN}]}
