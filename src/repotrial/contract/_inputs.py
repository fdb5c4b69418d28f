"""Everything beside `contract.toml` that it names: there, plain, bounded, readable, pinned."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import inspect as mi

from repotrial.contract._contract import CONTRACT_FILE, LOCK_FILE, FilePin
from repotrial.contract._convert import PathUse, convert_collecting
from repotrial.contract._environment import Artifact, Environment
from repotrial.contract._files import ContractFiles, Refusal, normalize
from repotrial.contract._leaves import check_leaf
from repotrial.contract._oracle import Inventory
from repotrial.contract._problems import MAX_FINDINGS, Finding, Place, Problem, quote, render_field
from repotrial.contract._rules import check_inventory
from repotrial.contract._text import decode_text, parse_json
from repotrial.contract._types import MEBIBYTE, ContractPath

MAX_LAID_FILES = 100_000
"""Most files that all fields together may name, each counted as often as it is named."""

_RESERVED = (CONTRACT_FILE, LOCK_FILE)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):")
_ARTIFACT_SCHEMES = ("http", "https")
_MAX_ARTIFACT_BYTES = 16 * 1024 * MEBIBYTE


@dataclass
class Inputs:
    """What the files beside the contract say."""

    statement: str = ""
    reference: bytes | None = None
    inventories: dict[str, Inventory] = field(default_factory=dict)
    """By path; the same file may be spelled in many ways."""
    pins: tuple[FilePin, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    """About fields of `contract.toml`."""
    problems: list[Problem] = field(default_factory=list)
    """About other files."""


def load_inputs(files: ContractFiles, uses: Iterable[PathUse], environment: Environment | None) -> Inputs:
    """Read, check and pin whatever is named; what is wrong is listed in the result."""
    reader = _Reader(files)
    for use in uses:
        if not reader.has_seen_enough():
            reader.add(use)
    for position, artifact in enumerate(() if environment is None else environment.artifacts):
        if not reader.has_seen_enough():
            reader.check_artifact(artifact, ("environment", "artifacts", position))
    return reader.finish()


class _Reader:
    def __init__(self, files: ContractFiles) -> None:
        self._files = files
        self._inputs = Inputs()
        self._pins: dict[str, FilePin] = {}
        self._counts: dict[str, int] = {}
        self._seen_inventories: set[str] = set()
        self._artifacts: dict[str, FilePin | Refusal] = {}
        self._laid = 0

    def finish(self) -> Inputs:
        if self.has_seen_enough():
            self._report("more-problems", (), "and perhaps more: the remaining files were not looked at")
        if self._laid <= MAX_LAID_FILES:
            self._inputs.pins = tuple(self._pins[path] for path in sorted(self._pins))
        return self._inputs

    def has_seen_enough(self) -> bool:
        """Whether so much is wrong that looking at more files would only take time."""
        return len(self._inputs.findings) + len(self._inputs.problems) >= MAX_FINDINGS

    def add(self, use: PathUse) -> None:
        path = normalize(use.path)
        if path in _RESERVED:
            message = f"expected a file of its own, found {quote(path)}, which has another meaning"
            self._report("file-reserved", use.place, message)
            return
        refusal = self._files.check_entry(path, use.extra["entry"])
        if refusal is not None:
            if not (use.extra["may_be_absent"] and refusal.code == "file-missing"):
                self._refuse(refusal, use.place, path)
            return
        if use.extra["is_pinned"]:
            self._pin(use, path)
        self._read(use, path)

    def check_artifact(self, artifact: Artifact, place: Place) -> None:
        """A download is pinned by its digest alone; a local file must also be there and have that digest."""
        source_place = (*place, "source")
        url = _URL.match(artifact.source)
        if url is not None:
            if url["scheme"].lower() not in _ARTIFACT_SCHEMES:
                message = f"expected an http or https URL, or a path, found {quote(artifact.source)}"
                self._report("source-unsafe", source_place, message)
            return
        fault = check_leaf(artifact.source, mi.type_info(ContractPath))
        if fault is not None:
            self._report("value-invalid", source_place, fault.message)
            return
        path = normalize(artifact.source)
        if path not in self._artifacts:  # one large file may be named very often
            self._artifacts[path] = self._files.pin(path, max_bytes=_MAX_ARTIFACT_BYTES)
        pin = self._artifacts[path]
        if isinstance(pin, Refusal):
            self._refuse(pin, source_place, path)
        elif pin.digest != artifact.digest:
            message = f"expected {artifact.digest}, found {pin.digest} in {quote(path)}"
            self._report("artifact-digest", (*place, "digest"), message)

    def _pin(self, use: PathUse, path: str) -> None:
        if path not in self._counts:
            found = list(self._files.iter_pins(path, max_bytes=use.extra["max_bytes"]))
            self._counts[path] = len(found)
            for pin in found:
                if isinstance(pin, Refusal):
                    self._refuse(pin, use.place, path)
                else:
                    self._pins[pin.path] = pin
        was_sound = self._laid <= MAX_LAID_FILES
        self._laid += self._counts[path]
        if was_sound and self._laid > MAX_LAID_FILES:
            message = f"expected all fields together to name at most {MAX_LAID_FILES} files, found more"
            self._report("oracle-too-large", use.place, message)

    def _read(self, use: PathUse, path: str) -> None:
        match use.place:
            case ("statement",):
                self._read_statement(use, path)
            case ("reference",):
                self._inputs.reference = self._bytes(use, path)
            case ("checks", _, "inventory"):
                self._read_inventory(use, path)
            case _:
                return

    def _read_statement(self, use: PathUse, path: str) -> None:
        text = self._text(use, path)
        if text is None:
            return
        self._inputs.statement = text
        if not text.strip():
            message = "expected a statement for the agent, found an empty file"
            self._problem(
                "file-empty", path, message, hint="say what is wrong and what must be true afterwards"
            )

    def _read_inventory(self, use: PathUse, path: str) -> None:
        if path in self._seen_inventories:
            return
        self._seen_inventories.add(path)
        text = self._text(use, path)
        if text is None:
            return
        value = parse_json(text, file=path)
        if isinstance(value, Problem):
            self._inputs.problems.append(value)
            return
        conversion = convert_collecting(value, Inventory, is_json=True)
        findings = conversion.findings
        if conversion.document is not None:
            self._inputs.inventories[path] = conversion.document
            findings = tuple(check_inventory(conversion.document))
        for finding in findings:
            self._problem(
                finding.code, path, finding.message, field=render_field(finding.place), hint=finding.hint
            )

    def _text(self, use: PathUse, path: str) -> str | None:
        data = self._bytes(use, path)
        if data is None:
            return None
        text = decode_text(data, file=path)
        if isinstance(text, Problem):
            self._inputs.problems.append(text)
            return None
        return text

    def _bytes(self, use: PathUse, path: str) -> bytes | None:
        data = self._files.read(path, max_bytes=use.extra["max_bytes"])
        if not isinstance(data, Refusal):
            return data
        if not use.extra["is_pinned"]:  # otherwise pinning has said it already
            self._refuse(data, use.place, path)
        return None

    def _refuse(self, refusal: Refusal, place: Place, path: str) -> None:
        if refusal.path == path:
            named = quote(path) in refusal.message
            message = refusal.message if named else f"{quote(path)}: {refusal.message}"
            self._report(refusal.code, place, message, refusal.hint)
        else:
            self._problem(
                refusal.code, refusal.path, refusal.message, field=render_field(place), hint=refusal.hint
            )

    def _report(self, code: str, place: Place, message: str, hint: str = "") -> None:
        self._inputs.findings.append(Finding(code=code, place=place, message=message, hint=hint))

    def _problem(self, code: str, file: str, message: str, *, field: str = "", hint: str = "") -> None:
        self._inputs.problems.append(
            Problem(code=code, severity="error", file=file, field=field, message=message, hint=hint)
        )
