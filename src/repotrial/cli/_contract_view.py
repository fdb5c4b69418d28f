"""A contract, drawn for people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from repotrial import api
from repotrial._core.display import escape_unprintable

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEGINS_ANEW = re.compile(r"\s*(?:$|[#>|]|[-*+=_]{2,}\s*$|[-*+]\s|[0-9]{1,9}[.)]\s)| {0,3}(?:`{3}|~{3})")
"""Lines that do not continue the paragraph before them: headings, quotes, tables, rules, items, code."""
_STANDS_ALONE = re.compile(r"\s*(?:$|[#>|]|[-*+=_]{2,}\s*$)|(?: {4}|\t)")
"""Lines that the next one does not continue."""


def render_statement(statement: str) -> Text:
    """The statement for a terminal of any width."""
    text = Text()
    for line, style in _iter_lines(escape_unprintable(statement.strip("\n"), keep="\n\t")):
        text.append(f"{line}\n", style=style)
    text.rstrip()
    return text


def _iter_lines(statement: str) -> Iterator[tuple[str, str]]:
    paragraph: list[str] = []
    fence = ""
    for line in statement.split("\n"):
        if paragraph and not _BEGINS_ANEW.match(line):
            paragraph.append(line.strip())
            continue
        yield from _end(paragraph)
        mark = _FENCE.match(line)
        if fence:
            yield line, "cyan"
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            yield line, "cyan"
            fence = mark[1]
        elif _STANDS_ALONE.match(line):
            yield line, "bold" if line.lstrip().startswith("#") else ""
        else:
            paragraph.append(line.rstrip())
    yield from _end(paragraph)


def _end(paragraph: list[str]) -> Iterator[tuple[str, str]]:
    if paragraph:
        yield " ".join(paragraph), ""
        paragraph.clear()


def render_contract(loaded: api.LoadedContract, certificate: list[str]) -> RenderableType:
    contract = loaded.contract
    return Group(
        Panel(render_statement(loaded.statement), title=_text(contract.id, style="bold"), title_align="left"),
        _facts(loaded, certificate),
        _checks(loaded),
        _policy(loaded),
    )


def _text(*lines: str, style: str = "") -> Text:
    """Lines of untrusted text; a line break within one of them is shown, not obeyed."""
    return Text("\n".join(map(escape_unprintable, lines)), style=style)


def _facts(loaded: api.LoadedContract, certificate: list[str]) -> Table:
    contract, lock = loaded.contract, loaded.lock
    rows: list[tuple[str, ...]] = [
        ("title", contract.title),
        ("kind", contract.kind),
        ("repository", _repository(loaded)),
        ("version id", lock.version_id if lock else "not locked (repotrial contract lock)"),
        ("tree digest", lock.repository.tree_digest if lock else "not locked"),
        ("replay", lock.replay if lock else "not locked"),
        ("environment", _environment(loaded)),
        ("setup", *([step.run for step in contract.setup] or ["nothing"])),
        ("reference", contract.reference or "none"),
        ("certificate", *certificate),
    ]
    return _two_columns("Identity", rows)


def _repository(loaded: api.LoadedContract) -> str:
    repository = loaded.contract.repository
    commit = getattr(repository, "commit", None)  # archives and directories have none
    at = f", commit {commit}" if commit else ""
    return f"{repository.__struct_config__.tag}: {repository.source}{at}"


def _environment(loaded: api.LoadedContract) -> str:
    environment = loaded.contract.environment
    image = environment.image
    words = [image if isinstance(image, str) else f"image ({image.__struct_config__.tag})"]
    words += [f"{name} {constraint}" for name, constraint in environment.tools.items()]
    words += [f"service {service.id}" for service in environment.services]
    return ", ".join([*words, f"isolation {environment.isolation} or stronger"])


def _checks(loaded: api.LoadedContract) -> Table:
    table = _titled("Oracle: checks, in order")
    table.add_column(overflow="fold")
    for check in loaded.contract.checks:
        words = [
            check.gate,
            "mandatory" if check.is_mandatory else "optional",
            f"judged {check.judge}",
            f"baseline {check.baseline}" if check.baseline else "no baseline stated",
            f"at most {check.timeout_seconds} s" if check.timeout_seconds is not None else "no ceiling",
        ]
        if (found := loaded.inventories.get(check.id)) is not None:
            words.append(f"tests: {len(found.fail_to_pass)} to turn, {len(found.pass_to_pass)} to keep")
        table.add_row(_text(check.id, style="bold"))
        table.add_row(Padding(_text(", ".join(words)), (0, 0, 0, 2)))
        for runner in check.all_runners:
            first, *others = runner.run.split("\n")
            table.add_row(Padding(_text(f"$ {first}", *others, style="cyan"), (0, 0, 0, 2)))
    return table


def _policy(loaded: api.LoadedContract) -> Table:
    policy, limits = loaded.contract.policy, loaded.contract.limits
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
