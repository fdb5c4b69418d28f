"""`pilot freeze`: digested and signed before the first run; amendments are further versions (B5, C11)."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial import __version__
from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.files import write_atomic
from repotrial.analysis import (
    LoadedPlan,
    Pilot,
    Registration,
)
from repotrial.conduct._stamp import TimeStamp, take_response, write_request
from repotrial.conduct._study import ROWS, Study, digest_files
from repotrial.signing import PublicKey, SignedStatement, SigningKey

_ANALYZING: Final = ("analysis", "conduct", "score", "stats")
_TRUST_LIMITS: Final = (
    "The registration shows what was fixed before it was signed. It cannot show when, unless a time stamp of "
    "others is beside it; nor that the holder of the key did not go back to an older journal; nor how often "
    "people looked at single runs, which stay readable."
)
_RULES: Final = (
    "adjudication", "contrasts", "decision", "flakiness_tolerance", "level", "power", "review", "seed",
    "smallest_effect", "stages", "stopping", "strata", "relaxations",
)  # fmt: skip
_RESTARTING: Final = frozenset({"suite", "arms", "caps", "rules"})

FREEZE_REFUSED = ErrorCode(
    "freeze-refused",
    ContractError,
    "A pilot cannot be frozen or amended like this.",
    hint="plan first with `repotrial pilot plan`; an amendment needs --reason and something that changed",
)


class FreezeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `pilot freeze` did."""

    path: str
    registration: Registration
    digest: Digest
    """Of the registration's file."""
    stamp_request: str | None = None
    """The request to a time-stamping authority; None if the extra for it is not installed."""

    @classmethod
    def freeze(
        cls,
        study: Study,
        key: SigningKey,
        *,
        conducting: Sequence[PublicKey] = (),
        reason: str | None = None,
        removed: Mapping[str, str] | None = None,
    ) -> FreezeResult:
        """Sign the plan, or an amendment of it.

        Args:
            study: The pilot, planned.
            key: The study's key.
            conducting: Keys of machines that may conduct; the study's own if none is named.
            reason: Of an amendment.
            removed: Tasks that turned out to be objectively invalid, each with the reason.

        Raises:
            PILOT_INVALID: the plan is not the one that `pilot plan` makes.
            FREEZE_REFUSED: there is nothing to amend, or no reason.
        """
        _verify_plan(study)
        before = load_registrations(study.directory)
        digests = digest_files(study)
        parts = _digest_parts(study.pilot, study.suite.suite_id, digests)
        changed = _find_changed(before[-1], digests, parts) if before else ()
        _verify_amendment(study, before, changed, reason, removed or {})
        last = before[-1] if before else None
        earlier = last.signed.predicate.removed_tasks if last is not None else {}
        registration = Registration(
            pilot=study.pilot.id,
            version=len(before) + 1,
            previous=None if last is None else last.digest,
            reason=reason or "",
            restarts=bool(_RESTARTING & {*changed}),
            changed=changed,
            removed_tasks={**earlier, **(removed or {})},
            suite_id=study.suite.suite_id,
            parts=parts,
            code_version=__version__,
            code_digest=compute_code_digest(),
            conducting_keys=tuple(each.pem for each in conducting) or (key.public_key.pem,),
            frozen_at_us=SystemClock().now_us(),
            public_key=key.public_key.pem,
            trust_limits=_TRUST_LIMITS,
        )
        path = study.directory / Registration.FOLDER / f"{registration.version}.json"
        path.parent.mkdir(exist_ok=True)
        data = registration.sign(digests, key)
        write_atomic(path, data)
        request = write_request(study.directory, registration.version, data)
        return cls(
            path=str(path),
            registration=registration,
            digest=digest_bytes(data),
            stamp_request=None if request is None else str(request),
        )


def stamp_registration(directory: Path, *, response: Path, authority: Path) -> TimeStamp:
    """Take the response of a time-stamping authority over the registration in force.

    Raises:
        FREEZE_REFUSED: the pilot is not frozen.
        STAMP_REFUSED: the response does not hold.
    """
    registrations = load_registrations(directory)
    if not registrations:
        raise FREEZE_REFUSED.error(f"{directory}: expected a frozen pilot, found no registration")
    last = registrations[-1]
    version = last.signed.predicate.version
    return take_response(directory, version, last.path.read_bytes(), response=response, authority=authority)


class LoadedRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A registration as read; verified by `check_pilot_record`."""

    path: Path
    signed: SignedStatement[Registration]
    digest: Digest


def load_registrations(directory: Path) -> tuple[LoadedRegistration, ...]:
    """All versions of a pilot's registration, the first one first.

    Raises:
        REGISTRATION_INVALID: a file is not one.
    """
    folder = directory / Registration.FOLDER
    paths = sorted(folder.glob("*.json"), key=lambda path: (len(path.stem), path.stem))
    return tuple(
        LoadedRegistration(
            path=path,
            signed=Registration.parse(data, name=path.name),
            digest=digest_bytes(data),
        )
        for path in paths
        for data in (path.read_bytes(),)
    )


def _verify_plan(study: Study) -> None:
    """The plan on disk is the one that the pilot leads to: every difference is listed."""
    found = LoadedPlan.load(study.directory)
    expected = study.build_plan()
    hint = "run `repotrial pilot plan` again; a plan is never edited by hand"
    file = f"{LoadedPlan.FOLDER}/{ROWS}"
    problems = [
        Pilot.build_problem("", f"expected equal runs for all arms, found: {words}", hint, file=file)
        for words in found.find_imbalance()
    ]
    if found.rows != expected.rows:
        problems.append(
            Pilot.build_problem("", "expected the order of the seed, found another", hint, file=file)
        )
    if found.plan != expected.plan:
        words = ", ".join(_list_fields(found.plan, expected.plan))
        message = f"expected the plan of this pilot, found another: {words}"
        problems.append(Pilot.build_problem("", message, hint, file=f"{LoadedPlan.FOLDER}/plan.json"))
    if problems:
        raise Pilot.build_error(problems, where=study.directory)


def _list_fields(found: msgspec.Struct, expected: msgspec.Struct) -> Iterator[str]:
    for name in found.__struct_fields__:
        if getattr(found, name) != getattr(expected, name):
            yield name


def _verify_amendment(
    study: Study,
    before: Sequence[LoadedRegistration],
    changed: Sequence[str],
    reason: str | None,
    removed: Mapping[str, str],
) -> None:
    unknown = [task for task in removed if task not in study.contracts]
    if unknown:
        raise FREEZE_REFUSED.error(f"expected tasks of the suite, found {', '.join(unknown)}")
    if not before:
        if removed:
            raise FREEZE_REFUSED.error("expected all tasks at the first freezing, found some removed")
        return
    if not changed and not removed:
        raise FREEZE_REFUSED.error(f"{before[-1].path}: expected something to amend, found nothing changed")
    if not reason:
        listed = ", ".join([*changed, *(f"{task} removed" for task in removed)])
        raise FREEZE_REFUSED.error(f"expected the reason of an amendment, found none; changed: {listed}")


def _digest_parts(pilot: Pilot, suite_id: Digest, digests: Mapping[str, Digest]) -> dict[str, Digest]:
    """Parts that decide, so that an amendment can say what it touches."""
    fields = msgspec.to_builtins(pilot, str_keys=True)
    kinds = {
        "suite": [suite_id],
        "arms": [fields["arms"], fields["conditions"], _pick(digests, "arm/")],
        "caps": [fields["caps"], fields["envelopes"], fields["isolation"]],
        "rules": [{name: fields[name] for name in _RULES}],
        "prices": [_pick(digests, "prices")],
        "thresholds": [_pick(digests, "thresholds")],
    }
    return {name: canonical_digest(_plain(value)) for name, value in kinds.items()}


def _pick(digests: Mapping[str, Digest], prefix: str) -> dict[str, Digest]:
    return {name: digest for name, digest in digests.items() if name.startswith(prefix)}


def _plain(value: object) -> JsonValue:
    """As canonical JSON has it: decimals are text already."""
    plain: JsonValue = msgspec.json.decode(msgspec.json.encode(value))
    return plain


def _find_changed(
    last: LoadedRegistration, digests: Mapping[str, Digest], parts: Mapping[str, Digest]
) -> tuple[str, ...]:
    old = last.signed.predicate.parts
    by_part = [name for name, digest in parts.items() if old.get(name) != digest]
    files = [
        name
        for name in sorted({*digests, *last.signed.subjects})
        if digests.get(name) != last.signed.subjects.get(name)
    ]
    return (*by_part, *files)


def compute_code_digest() -> Digest:
    """Over the source of the rooms that analyze."""
    found: dict[str, str] = {}
    for room in _ANALYZING:
        folder = importlib.resources.files("repotrial").joinpath(room)
        for file in folder.iterdir():
            if file.name.endswith(".py"):
                found[f"{room}/{file.name}"] = digest_bytes(file.read_bytes())
    return canonical_digest(dict(sorted(found.items())))
