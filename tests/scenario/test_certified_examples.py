"""Certificates of the examples: each fits what it is about, and some are made anew, cell by cell the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from repotrial import api
from repotrial._core.errors import MachineError
from repotrial.authoring import Certificate
from repotrial.authoring._certify._file import build_procedure_digest, load_certificate
from repotrial.authoring._certify._model import CERTIFICATE_FILE
from repotrial.contract import LOCK_FILE
from support.caches import find_shared_cache
from support.examples import EXAMPLES, Example, load_example, load_examples, require_snapshot, require_tools
from support.exhaustive import IS_EXHAUSTIVE
from support.harness import require_sandboxes
from support.workspaces import scratch

ALL: Final = load_examples()
ANEW: Final = {
    "python": "tillbook-state",
    "javascript": "querycache-stale",
    "c": "reclog-recovery",
    "rust": "stockbook-quantities",
}
"""Certified anew by `make test-all`, and the quickest of them by every run of the tests."""
TRIED: Final = [*ANEW.values()] if IS_EXHAUSTIVE else ["querycache-stale"]
GUESSING: Final = frozenset({"twin-aware", "judge-memory"})
"""What refuses these depends on which expectations happen to be wrong."""


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.contract.id)
def test_a_certificate_is_of_this_version_and_of_this_procedure(example: Example) -> None:
    certificate = load_certificate(example.directory / CERTIFICATE_FILE).predicate
    lock = msgspec.json.decode((example.directory / LOCK_FILE).read_bytes())
    assert certificate.version_id == lock["version_id"]
    # Whoever changes what is tried certifies anew: `make certify`.
    assert certificate.procedure_digest == build_procedure_digest(example.contract.ecosystem)
    assert (certificate.is_certified, certificate.grade) == (True, "full")


def test_every_language_of_the_examples_is_certified_anew() -> None:
    assert {example.contract.ecosystem for example in ALL} == set(ANEW)
    assert [load_example(EXAMPLES / name).contract.ecosystem for name in ANEW.values()] == [*ANEW]


@pytest.mark.parametrize("name", TRIED)
def test_a_contract_that_is_certified_anew_gets_the_same_certificate(name: str) -> None:
    require_sandboxes()
    example = load_example(EXAMPLES / name)
    require_tools(example)
    require_snapshot(example)
    with scratch() as place:
        directory = shutil.copytree(EXAMPLES / name, place / name)
        (directory / CERTIFICATE_FILE).unlink()
        found = certify(directory, place)
    committed = load_certificate(EXAMPLES / name / CERTIFICATE_FILE).predicate
    assert found.public_key != committed.public_key
    assert list_cells(found) == list_cells(committed)


def certify(directory: Path, place: Path) -> Certificate:
    machine = api.MachineSettings(
        cache=find_shared_cache(), home=Path.home(), variables=dict(os.environ), secrets={}
    )
    request = api.CertificationRequest(machine=machine, key_file=place / "key.pem", jobs=2)
    try:
        return api.certify_contract(directory, request, lambda *_: None).certificate
    except MachineError as error:
        if error.code != "package-index-unreachable":
            raise
        pytest.skip(f"no package index: {error.message}")


def list_cells(certificate: Certificate) -> dict[Any, Any]:
    """All that the trials said; not where and when, and not what they were called."""
    about = {
        name: getattr(certificate, name)
        for name in ("version_id", "procedure_digest", "grade", "repeats", "is_certified")
    }
    items = {("item", item.id): item.outcome for item in certificate.items}
    cheats = {
        ("cheat", cheat.name, cheat.variant): (
            cheat.outcome,
            cheat.verdict,
            cheat.reason,
            "something" if cheat.name in GUESSING and cheat.tags else cheat.tags,
        )
        for cheat in certificate.cheats
    }
    runs = {
        ("run", number, run.purpose): (run.verdict, run.gates) for number, run in enumerate(certificate.runs)
    }
    return {**about, **items, **cheats, **runs}
