"""`contract prove`: a contract is run again, and its inventory becomes what its tests did (C13)."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.files import write_atomic
from repotrial.authoring import Proof, ProofSettings, Unproved, prove_contract
from repotrial.contract import CONTRACT_FILE, Check, LoadedContract, ResultFile, build_lock, load_contract
from repotrial.mining._refresh import list_test_files
from repotrial.source import resolve_snapshot

_JUNIT: Final = ResultFile(format="junit", path="junit.xml")
_TABLE: Final = re.compile(r"^\[\[checks\]\][ \t]*(?:#.*)?$", re.MULTILINE)
_HEADER: Final = re.compile(r"^\[\[?[\w.\"-]+\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)

PROOF_IMPOSSIBLE = ErrorCode(
    "proof-impossible",
    ContractError,
    "The tests of a contract cannot be proved: there is no reference, or its check reports no tests.",
    hint="name a `reference`, and let the first check leave `results` that name its tests, such as JUnit",
)


class ProvedContract(msgspec.Struct, frozen=True, kw_only=True):
    """What the tests of a contract did, and what was written of it."""

    directory: str
    proof: Proof | Unproved
    written: tuple[str, ...] = ()
    """Files that say something else now."""


def prove_draft(directory: Path, proving: ProofSettings) -> ProvedContract:
    """Run the first check on the snapshot and on the reference, and write its inventory where tests turn.

    What is written: the inventory, and in `contract.toml` the first check's `inventory`, `results` and `run`
    where they change. Comments and everything else stay as they are.

    Raises:
        PROOF_IMPOSSIBLE: there is nothing that could be proved.
    """
    loaded = load_contract(directory, lock_ignored=True)
    check = loaded.contract.checks[0]
    if loaded.reference is None:
        raise PROOF_IMPOSSIBLE.error(f"{directory}: expected a reference, found none")
    results = _choose_results(check)
    if results is None:
        raise PROOF_IMPOSSIBLE.error(
            f"{directory}: check {check.id}: expected a command whose results name tests, found none"
        )
    pin = resolve_snapshot(loaded.contract.repository, base=directory).pin
    tried = _replace_check(loaded, msgspec.structs.replace(check, results=results, inventory=None))
    pinned = replace(tried, lock=build_lock(tried, pin))
    proof = prove_contract(pinned, proving, test_files=list_test_files(loaded))
    if isinstance(proof, Unproved):
        return ProvedContract(directory=str(directory), proof=proof)
    return ProvedContract(
        directory=str(directory), proof=proof, written=_write(directory, check, results, proof)
    )


def _choose_results(check: Check) -> tuple[ResultFile, ...] | None:
    """What names its tests; a draft that did not run leaves a JUnit file that it does not declare."""
    if check.run is None:
        return None
    if any(result.format != "exit-code" for result in check.results):
        return check.results
    return (_JUNIT,) if '="$REPOTRIAL_RESULTS/junit.xml"' in check.run else None


def _replace_check(loaded: LoadedContract, check: Check) -> LoadedContract:
    checks = (check, *loaded.contract.checks[1:])
    inventories = {name: each for name, each in loaded.inventories.items() if name != check.id}
    contract = msgspec.structs.replace(loaded.contract, checks=checks)
    return replace(loaded, contract=contract, inventories=inventories)


def _write(directory: Path, check: Check, results: tuple[ResultFile, ...], proof: Proof) -> tuple[str, ...]:
    place = check.inventory or f"checks/{check.id}.json"
    inventory = msgspec.json.format(msgspec.json.encode(proof.inventory), indent=2) + b"\n"
    text = (directory / CONTRACT_FILE).read_text(encoding="utf-8")
    edited = text
    wanted = {
        "run": " ".join([check.run or "", *proof.deselected]),
        "results": [_to_toml(result) for result in results],
        "inventory": place,
    }
    for key, value in wanted.items():
        edited = set_in_first_check(edited, key, value)
    files = {place: inventory, CONTRACT_FILE: edited.encode()}
    changed = {
        name: data
        for name, data in files.items()
        if not (directory / name).is_file() or (directory / name).read_bytes() != data
    }
    for name, data in changed.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / name, data)
    return tuple(sorted(changed))


def _to_toml(result: ResultFile) -> dict[str, str]:
    found = {"format": result.format, "path": result.path or "", "prefix": result.prefix}
    return {name: value for name, value in found.items() if value}


def set_in_first_check(text: str, key: str, value: Any) -> str:
    """The same TOML with one key of its first check set: every other byte stays, comments included.

    Raises:
        PROOF_IMPOSSIBLE: the check does not stand in a table of its own; the message says what to write.
    """
    document = tomllib.loads(text)
    if document["checks"][0].get(key) == value:
        return text
    wanted = copy.deepcopy(document)
    wanted["checks"][0][key] = value
    line = f"{key} = {_render(value)}"
    head = _TABLE.search(text)
    if head is not None:
        for edited in _iter_edits(text, head.end() + 1, key, line):
            if _reads_as(edited, wanted):
                return edited
    raise PROOF_IMPOSSIBLE.error(
        f"{CONTRACT_FILE}: expected the first check in a table `[[checks]]`, found none that could be edited",
        hint=f"write there: {line}",
    )


def _iter_edits(text: str, start: int, key: str, line: str) -> list[str]:
    """Where the key stands already, with values of one line and of more; else as the table's last line."""
    following = _HEADER.search(text, start)
    end = len(text) if following is None else following.start()
    lines = text[start:end].splitlines(keepends=True)
    at = [number for number, each in enumerate(lines) if re.match(rf"{re.escape(key)}\s*=", each)]
    edits = [
        "".join([*lines[:number], f"{line}\n", *lines[stop:]])
        for number in at
        for stop in range(number + 1, len(lines) + 1)
    ]
    filled = len(lines)
    while filled and not lines[filled - 1].strip():
        filled -= 1
    edits.append("".join([*lines[:filled], f"{line}\n", *lines[filled:]]))
    return [text[:start] + edit + text[end:] for edit in edits]


def _reads_as(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _render(value: Any) -> str:
    """Strings and arrays of tables of strings; a JSON string is a TOML string."""
    if isinstance(value, str):
        literal = "'" not in value and "\n" not in value and ('"' in value or "\\" in value)
        return f"'{value}'" if literal and value.isprintable() else msgspec.json.encode(value).decode()
    tables = ", ".join(
        "{ " + ", ".join(f"{name} = {_render(each)}" for name, each in table.items()) + " }"
        for table in value
    )
    return f"[{tables}]"
