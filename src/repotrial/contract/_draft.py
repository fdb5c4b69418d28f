"""The sound parts of a contract that may have unsound ones: rules speak about as much as can be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from repotrial.contract._contract import Repository
from repotrial.contract._environment import Environment, Service, SetupStep
from repotrial.contract._oracle import Check
from repotrial.contract._policy import Limits, Policy, Scoring
from repotrial.contract._problems import Finding, Place

PartT = TypeVar("PartT")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Typed where the document is sound; `None` or left out where it is not."""

    repository: Repository | None
    environment: Environment | None
    setup: Mapping[int, SetupStep]
    checks: Mapping[int, Check]
    policy: Policy | None
    limits: Limits | None
    scoring: Scoring | None
    check_ids: Mapping[int, str]
    """Also of checks that are unsound otherwise, so that naming one is not called a mistake."""
    setup_ids: Mapping[int, str]
    service_ids: Mapping[int, str]
    artifact_ids: Mapping[int, str]

    @cached_property
    def first_positions(self) -> dict[str, int]:
        """Where each check's id stands first."""
        positions: dict[str, int] = {}
        for position, name in self.check_ids.items():
            positions.setdefault(name, position)
        return positions

    @cached_property
    def needs(self) -> dict[str, tuple[str, ...]]:
        return {check.id: check.needs for check in self.checks.values()}

    @cached_property
    def services(self) -> dict[str, Service]:
        return {} if self.environment is None else {item.id: item for item in self.environment.services}


def build_draft(value: Mapping[str, Any], findings: tuple[Finding, ...]) -> Draft:
    """Take what the findings leave standing."""
    # Parts and items are named by one or two steps; a finding anywhere within one makes it unsound.
    unsound = {finding.place[:steps] for finding in findings for steps in (1, 2)}
    builder = _Builder(value, unsound)
    environment = value.get("environment")
    tables = environment if isinstance(environment, dict) else {}
    return Draft(
        repository=builder.part("repository", Repository),
        environment=builder.part("environment", Environment),
        setup=builder.items("setup", SetupStep),
        checks=builder.items("checks", Check),
        policy=builder.part("policy", Policy),
        limits=builder.part("limits", Limits),
        scoring=builder.part("scoring", Scoring),
        check_ids=_ids(value.get("checks")),
        setup_ids=_ids(value.get("setup")),
        service_ids=_ids(tables.get("services")),
        artifact_ids=_ids(tables.get("artifacts")),
    )


@dataclass(frozen=True)
class _Builder:
    value: Mapping[str, Any]
    unsound: set[Place]

    def part(self, name: str, model: Any) -> Any:
        return self._convert(self.value.get(name, {}), model, (name,))

    def items(self, name: str, model: type[PartT]) -> dict[int, PartT]:
        raw = self.value.get(name, [])
        if not isinstance(raw, list):
            return {}
        items = {position: self._convert(item, model, (name, position)) for position, item in enumerate(raw)}
        return {position: item for position, item in items.items() if item is not None}

    def _convert(self, raw: object, model: Any, place: Place) -> Any:
        # A finding without a place stands for those that are not listed.
        if place in self.unsound or () in self.unsound:
            return None
        try:
            return msgspec.convert(raw, model)
        except msgspec.ValidationError:  # the table is missing, or beyond the findings that are listed
            return None


def _ids(raw: object) -> dict[int, str]:
    items = raw if isinstance(raw, list) else []
    pairs = ((position, item.get("id")) for position, item in enumerate(items) if isinstance(item, dict))
    return {position: name for position, name in pairs if isinstance(name, str)}
