"""A contract, drawn for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from repotrial._core.display import escape_unprintable
from repotrial.cli._statement_view import render_statement

if TYPE_CHECKING:
    from repotrial.api import Certificate, CertificateState, Check, Contract, Inventory, LoadedContract


def render_contract(loaded: LoadedContract, certificate: CertificateState) -> RenderableType:
    contract = loaded.contract
    return Group(
        Panel(render_statement(loaded.statement), title=_text(contract.id, style="bold"), title_align="left"),
        _facts(loaded, certificate),
        _checks(loaded),
        _policy(contract),
    )


def _text(*lines: str, style: str = "") -> Text:
    """Lines of untrusted text; a line break within one of them is shown, not obeyed."""
    return Text("\n".join(map(escape_unprintable, lines)), style=style)


def _facts(loaded: LoadedContract, certificate: CertificateState) -> Table:
    contract, lock = loaded.contract, loaded.lock
    rows: list[tuple[str, ...]] = [
        ("title", contract.title),
        ("kind", contract.kind),
        ("repository", _repository(contract)),
        ("version id", lock.version_id if lock else "not locked (repotrial contract lock)"),
        ("tree digest", lock.repository.tree_digest if lock else "not locked"),
        ("replay", lock.replay if lock else "not locked"),
        ("environment", _environment(contract)),
        ("setup", *([step.run for step in contract.setup] or ["nothing"])),
        ("reference", contract.reference or "none"),
        ("certificate", *_certificate(certificate)),
    ]
    return _two_columns("Identity", rows)


def _certificate(state: CertificateState) -> list[str]:
    """What it says, if it is worth anything, and whose word that is."""
    from repotrial import api

    match state:
        case api.CertificateMissing():
            return ["none (repotrial contract certify)"]
        case api.CertificateRefused(reason=reason):
            return [f"worthless: {reason}"]
        case api.CertificateStale(changed=changed):
            return [f"stale: certify it anew ({', '.join(changed)})"]
        case api.CertificateUntrusted(key_id=key_id, certificate=certificate):
            return [*_certified(certificate), f"not signed by a trusted key: {key_id}"]
        case api.CertificateValid(key_id=key_id, certificate=certificate):
            return [*_certified(certificate), f"signed by {key_id}"]


def _certified(certificate: Certificate) -> list[str]:
    word = "certified" if certificate.is_certified else "not certified"
    tried = sum(cheat.outcome in ("refused", "accepted") for cheat in certificate.cheats)
    failing = [item.id for item in certificate.items if item.outcome == "fails"]
    first = f"{word} ({certificate.grade}): {len(certificate.items)} items, {tried} cheats"
    return [first, *([f"fails: {', '.join(failing)}"] if failing else [])]


def _repository(contract: Contract) -> str:
    repository = contract.repository
    commit = getattr(repository, "commit", None)  # archives and directories have none
    at = f", commit {commit}" if commit else ""
    return f"{repository.__struct_config__.tag}: {repository.source}{at}"


def _environment(contract: Contract) -> str:
    environment = contract.environment
    image = environment.image
    words = [image if isinstance(image, str) else f"image ({image.__struct_config__.tag})"]
    words += [f"{name} {constraint}" for name, constraint in environment.tools.items()]
    words += [f"service {service.id}" for service in environment.services]
    return ", ".join([*words, f"isolation {environment.isolation} or stronger"])


def _checks(loaded: LoadedContract) -> Table:
    table = _titled("Oracle: checks, in order")
    table.add_column(overflow="fold")
    for check in loaded.contract.checks:
        table.add_row(_text(check.id, style="bold"))
        table.add_row(Padding(_text(_describe(check, loaded.inventories.get(check.id))), (0, 0, 0, 2)))
        for runner in check.all_runners:
            first, *others = runner.run.split("\n")
            table.add_row(Padding(_text(f"$ {first}", *others, style="cyan"), (0, 0, 0, 2)))
    return table


def _describe(check: Check, inventory: Inventory | None) -> str:
    words = [
        check.gate,
        "mandatory" if check.is_mandatory else "optional",
        f"judged {check.judge}",
        f"baseline {check.baseline}" if check.baseline else "no baseline stated",
        f"at most {check.timeout_seconds} s" if check.timeout_seconds is not None else "no ceiling",
    ]
    if inventory is not None:
        words.append(f"tests: {len(inventory.fail_to_pass)} to turn, {len(inventory.pass_to_pass)} to keep")
    return ", ".join(words)


def _policy(contract: Contract) -> Table:
    policy, limits = contract.policy, contract.limits
    network = policy.network if isinstance(policy.network, str) else policy.network.__struct_config__.tag
    rows: list[tuple[str, ...]] = [
        ("network", str(network)),
        ("writable", ", ".join(policy.writable)),
        ("protected", ", ".join(policy.protected) or "nothing"),
        ("generated", ", ".join(policy.generated) or "nothing"),
        ("stages", policy.stages),
        ("dependencies", policy.dependencies.rule),
        ("wall time", f"{limits.wall_seconds} s"),
        ("cost", f"{limits.cost_usd} USD"),
        ("memory", f"{limits.memory_mb.request} MB, ended at {limits.memory_mb.kill} MB"),
    ]
    return _two_columns("Policy and limits", rows)


def _two_columns(title: str, rows: list[tuple[str, ...]]) -> Table:
    table = _titled(title)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, *values in rows:
        table.add_row(name, _text(*values))
    return table


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold underline", show_header=False, box=None)
