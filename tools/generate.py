"""Writes everything that is printed from the code: schemas and the generated pages of the reference.

`make docs` runs it; a test calls `build_files` and compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repotrial import api
from repotrial._core.errors import ExitCode
from repotrial.authoring._codes import DRAFT_CODES
from repotrial.cli._app import build_command
from repotrial.contract._codes import PROBLEM_CODES
from repotrial.contract._lint import iter_rules
from repotrial.score._cause_rules import CAUSE_RULES
from repotrial.score._taxonomy import ARTIFACTS, load_artifact
from repotrial.trace import RunPaths, iter_payload_types
from repotrial.trace._rundir import is_computed

ROOT = Path(__file__).resolve().parent.parent


def build_files() -> dict[str, str]:
    """The text of every generated file, by its path from the project's root."""
    schemas = {name: api.build_schema(name) for name in api.list_schemas()}
    files = {
        f"schemas/{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }
    files.update({f"schemas/rubric/{name}": load_artifact(name).decode() for name in ARTIFACTS})
    pages = {
        "commands": render_commands(),
        "contract": render_document("contract.toml", schemas["contract"]),
        "errors": render_errors(),
        "events": render_events(schemas["trace"]),
        "lint": render_lint(),
        "manifest": render_document("manifest.json", schemas["manifest"], absent="required since version 2"),
        "run-directory": render_run_directory(),
        "score": render_document("score.json", schemas["score"]),
        "script": render_document("Script of a canned model", schemas["script"]),
    }
    files.update({f"docs/reference/{name}.md": text for name, text in pages.items()})
    files[_VERDICTS] = _fill((ROOT / _VERDICTS).read_text(encoding="utf-8"), "causes", render_causes())
    return files


_VERDICTS = "docs/explanation/verdicts.md"


def _fill(page: str, name: str, text: str) -> str:
    """A page that is written by hand, with the part between two marks printed from the code."""
    begin, end = f"<!-- {name}: printed from the code by `make docs` -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def render_causes() -> str:
    rows = ((rule.part, f"`{rule.cause}`", rule.evidence, rule.counts, rule.repeated) for rule in CAUSE_RULES)
    return _table(("part", "cause", "evidence", "how the attempt counts", "what is repeated"), rows)


def _page(title: str, *paragraphs: str) -> str:
    note = "<!-- Printed from the code by `make docs`: edit the code. -->"
    return "\n\n".join([f"# {title}", note, *(paragraph.strip("\n") for paragraph in paragraphs)]) + "\n"


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _table(header: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def render_errors() -> str:
    exits = {
        ExitCode.DONE: "the command did what was asked",
        ExitCode.DOES_NOT_HOLD: "the thing checked does not hold",
        ExitCode.BAD_INPUT: "the command line or an input document is wrong",
        ExitCode.MACHINE_CANNOT: "this machine lacks something; the message says what",
    }
    return _page(
        "Errors",
        "Codes are stable. *To act* says who has to do something before the same command can succeed.",
        _table(("exit code", "meaning"), ((int(code), text) for code, text in exits.items())),
        "Ctrl-C ends a command with 130; 70 is a fault of RepoTrial itself.",
        _table(
            ("code", "to act", "exit", "what happened", "what to do"),
            ((f"`{e.code}`", e.blame, e.exit_code, e.description, e.hint) for e in api.list_errors()),
        ),
    )


def render_lint() -> str:
    sections = []
    for rule in iter_rules():
        example = (
            f"Speaks up for, in `{rule.example.file}`:\n\n{_fenced(rule.example.file, rule.example.text)}"
        )
        sections.append(f"## {rule.code}\n\n*{rule.severity}*: {rule.docstring}\n\n{example}")
    intro = (
        "`repotrial contract check` runs every rule. An *error* makes the contract unusable: "
        "`contract lock` and `run start` refuse it; a "
        "*warning* makes it worse than it could be (`--strict` counts both)."
    )
    loading = "Problems that keep a contract or a suite from loading, and what a lock can be wrong about."
    drafts = "What `repotrial contract new` leaves for the author to look at."
    return _page(
        "Lint rules",
        intro,
        *sections,
        f"# Problems of loading\n\n{loading}",
        _codes(PROBLEM_CODES),
        f"# Remarks on drafts\n\n{drafts}",
        _codes(DRAFT_CODES),
    )


def _codes(meanings: Mapping[str, str]) -> str:
    return _table(("code", "meaning"), ((f"`{code}`", meanings[code]) for code in sorted(meanings)))


def _fenced(file: str, text: str) -> str:
    language = {"toml": "toml", "md": "markdown", "patch": "diff", "json": "json"}[file.rpartition(".")[2]]
    return f"````{language}\n{text.strip()}\n````"


def render_events(schema: dict[str, Any]) -> str:
    rows = list(iter_payload_types())
    intro = (
        "One canonical JSON line per event in `trace.jsonl`: `actor`, `hash`, `payload`, `seq`, `t` "
        "(microseconds since the epoch, strictly increasing), `type`. *May be dropped*: under a byte budget "
        "these events give way, and a `trace-truncated` event says so; all others are always kept."
    )
    summary = _table(
        ("type", "what", "may be dropped"),
        ((f"[`{row.name}`](#{row.name})", row.summary, "yes" if row.droppable else "no") for row in rows),
    )
    definitions = schema["$defs"]
    sections = [
        f"## {row.name}\n\n{row.summary}\n\n{_fields(definitions[row.payload.__name__])}" for row in rows
    ]
    used = {row.payload.__name__ for row in rows}
    parts = [
        f"## {name}\n\n{_summary(definition)}\n\n{_fields(definition)}"
        for name, definition in sorted(definitions.items())
        if name not in used and _has_section(definition)
    ]
    return _page("Events", intro, summary, *sections, "# Parts of payloads", *parts)


_RUN_DIRECTORY = """\
A retry is a new directory. Nothing is edited in place: the manifest, the trace and the seal refuse to be
written a second time.

**What a seal covers**: every file below the directory that the table does not exclude. A file that
appears beside the sealed ones later is reported by `repotrial run verify`. *Computed* files may be
deleted, and computed again from the sealed ones at any time: no verdict reads one. Links, pipes and the
like are refused under every name, a computed one too.

## The hash chain
```
genesis = sha256("repotrial/genesis@1\\0" run_id)
hash_n  = sha256("repotrial/event@2\\0" hash_(n-1) seq_n form_n)
```
`hash_(n-1)` are 32 raw bytes, `seq_n` is 8 bytes big-endian, `form_n` is the line without its newline,
without the member `"hash":"…",`, and with every body (an object with the member `stored`) in the form
`withdrawn`: its digest, length and redacted spans, and as `stored_digest` the digest of the bytes that the
run kept. Keys are sorted, so the hash always stands right behind the actor.

A body can therefore be taken out of a finished run: written as `withdrawn`, and its blob removed. The chain
and the seal still hold, and `repotrial run verify` says how many bodies were taken out. A body that was
changed breaks the chain. In traces that say `repotrial/trace@1`, the line itself was hashed, as `event@1`.
"""


def render_run_directory() -> str:
    paths = RunPaths(Path())
    files = {name: value.__doc__ for name, value in vars(RunPaths).items() if isinstance(value, property)}

    def iter_rows() -> Iterator[tuple[str, str | None, str]]:
        for name, what in files.items():
            path: Path = getattr(paths, name)
            cover = "no" if path in {paths.seal, paths.trace_lock} else "yes"
            cover = "no: computed" if is_computed(path.name) else cover
            yield f"`{path}{'' if path.suffix else '/'}`", what, cover

    return _page("Run directory", _table(("file", "what", "sealed"), iter_rows()), _RUN_DIRECTORY)


def render_document(title: str, schema: dict[str, Any], *, absent: str = "") -> str:
    """A page; `absent` says what a field is that has no default and may be left out."""
    definitions = schema["$defs"]
    root = schema["$ref"].rpartition("/")[2]
    names = [root, *sorted(name for name in definitions if name != root)]
    sections = [
        f"## {name}\n\n{_summary(definitions[name])}\n\n{_fields(definitions[name], absent)}"
        for name in names
        if _has_section(definitions[name])
    ]
    return _page(title, "Every table and every key, printed from the models.", *sections)


def _summary(definition: dict[str, Any]) -> str:
    return str(definition.get("description", "")).partition("\n\n")[0]


def _has_section(definition: dict[str, Any]) -> bool:
    return bool(definition.get("properties") or definition.get("enum"))


def _fields(definition: dict[str, Any], absent: str = "") -> str:
    if "enum" in definition:
        return f"One of {_type_words(definition)}."
    required = set(definition.get("required", ()))
    properties = definition.get("properties", {})
    if not properties:
        return "No fields."
    rows = (
        (
            f"`{name}`",
            _type_words(field),
            "required" if name in required else _default_words(field, absent),
            field.get("description", ""),
        )
        for name, field in properties.items()
    )
    return _table(("key", "type", "default", "meaning"), rows)


def _default_words(field: dict[str, Any], absent: str) -> str:
    if "default" not in field:
        return absent
    if isinstance(field["default"], dict) and "$ref" in field:
        return "its own"
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`"


def _type_words(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type_words(option) for option in field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type_words(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"table of {_type_words(field['additionalProperties'])}"
    return str(kind)


def render_commands() -> str:
    root = build_command()
    sections = list(_iter_commands(root, "repotrial"))
    return _page("Commands", "`repotrial NOUN VERB`; every command has `--help`.", *sections)


def _iter_commands(command: Any, path: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name, child in children.items():
            yield from _iter_commands(child, f"{path} {name}")
        return
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = ((f"`{record[0]}`", record[1]) for record in records if record)
    example = (command.epilog or "").removeprefix("Example: ")
    options = _table(("option", "meaning"), rows)
    yield f"## {path}\n\n{command.help}\n\n```\n{usage}\n```\n\n{options}\n\n    {example}"


def main() -> int:
    changed = 0
    for name, text in sorted(build_files().items()):
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"written: {name}")
        changed += 1
    print(f"{changed} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
