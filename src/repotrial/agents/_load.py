"""Adapters from files: those that come with RepoTrial, and those of the user's own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.agents._model import ADAPTER_SCHEMA, Adapter, HostRecipe, NpmRecipe, PypiRecipe
from repotrial.contract import Problem, check_document, render_problems
from repotrial.transcripts import IMPORTERS

PLACEHOLDERS: Final = {
    "url": "the gateway's address inside the sandbox, without a slash at its end",
    "key": "the run's own key for the gateway",
    "model": "the model's name",
    "task": "the briefing; where it is too long for a command line, a sentence that names its file",
    "task_file": "the briefing as a file",
    "home": "the home directory inside",
    "prefix": "the installed tree inside",
    "program": "the installed program",
    "retries": "how often the agent may ask again after an error",
    "context_tokens": "how long a request the agent takes its model to read",
    "turns": "how many turns it may take; in `caps.turns` only",
}
"""What can be filled in, and what each stands for."""

_WORD: Final = re.compile(r"\{\{([a-z][a-z_]*)\}\}|\{([a-z][a-z_]*)\}")


_MAX_BYTES: Final = 1 << 20
_MAX_LOCK_BYTES: Final = 16 << 20
_Read: TypeAlias = Callable[[str, int], "bytes | Problem"]
"""A file beside the adapter, by name and with a bound on its size."""
ADAPTER_INVALID = ErrorCode(
    "adapter-invalid",
    UsageError,
    "An adapter file has problems that make it unusable. All of them are listed.",
    hint="mend what is listed; docs/how-to/add-an-agent.md describes every field",
)

ADAPTER_UNKNOWN = ErrorCode(
    "adapter-unknown",
    UsageError,
    "There is no adapter of that name.",
    hint="`repotrial agent list` shows all; `agent:FILE.toml` names a file of your own",
)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, once: a value that looks like a placeholder stays."""
    return _WORD.sub(lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], template)


def iter_unknown(template: str, known: Mapping[str, object]) -> Iterator[str]:
    """Placeholders that nothing can be filled in for."""
    for found in _WORD.finditer(template):
        if found[2] and found[2] not in known:
            yield found[2]


def _build_invalid(problems: Iterable[Problem]) -> UsageError:
    listed = tuple(problems)
    return ADAPTER_INVALID.error(render_problems("adapter", listed), details=listed)


class LoadedAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter with the files beside it."""

    adapter: Adapter
    """What the document says."""
    locks: dict[str, bytes]
    """Lock files by platform; `any` for one that fits all."""
    source: str
    """`built in`, or the file that it was read from."""

    @property
    def digest(self) -> Digest:
        """Over the document and its locks: everything that decides how the agent is got and started."""
        content: JsonValue = msgspec.to_builtins(self.adapter, str_keys=True)
        locks: JsonValue = {name: digest_bytes(data) for name, data in sorted(self.locks.items())}
        return canonical_digest([ADAPTER_SCHEMA, content, locks])

    @property
    def version(self) -> str:
        """Of the agent that the recipe installs."""
        return _find_version(self.adapter)


def load_adapter(path: Path) -> LoadedAdapter:
    """Read an adapter of the user's own.

    Raises:
        ADAPTER_INVALID: it cannot be read or is not sound; every problem is listed.
    """

    def read(name: str, most: int) -> bytes | Problem:
        return _read(path.parent / name, most)

    return _build(path.name, read, source=str(path))


def list_adapters(directory: Path | None = None) -> list[LoadedAdapter]:
    """All adapters by name; those of a directory stand in place of built-in ones of the same name.

    Raises:
        ADAPTER_INVALID: one of them is not sound, or two files of the directory have one name.
    """
    found = {loaded.adapter.name: loaded for loaded in _load_built_in()}
    own: dict[str, str] = {}
    for path in sorted(directory.glob("*.toml")) if directory is not None and directory.is_dir() else ():
        loaded = load_adapter(path)
        name = loaded.adapter.name
        if name in own:
            message = f"expected a name of its own, found {name} as in {own[name]}"
            raise _build_invalid([_problem(path.name, "name", message)])
        own[name] = path.name
        found[name] = loaded
    return [found[name] for name in sorted(found)]


def find_adapter(name: str, directory: Path | None = None) -> LoadedAdapter:
    """An adapter by name.

    Raises:
        ADAPTER_UNKNOWN: there is none.
        ADAPTER_INVALID: it is not sound.
    """
    loaded = list_adapters(directory)
    for item in loaded:
        if item.adapter.name == name:
            return item
    known = ", ".join(item.adapter.name for item in loaded)
    raise ADAPTER_UNKNOWN.error(f"expected the name of an agent ({known}), found {name!r}")


@cache
def _load_built_in() -> tuple[LoadedAdapter, ...]:
    home = resources.files("repotrial.agents") / "data"

    def read(name: str, _most: int) -> bytes:
        return (home / name).read_bytes()

    names = sorted(entry.name for entry in home.iterdir() if entry.name.endswith(".toml"))
    return tuple(_build(name, read, source="built in") for name in names)


def _build(file: str, read: _Read, *, source: str) -> LoadedAdapter:
    data = read(file, _MAX_BYTES)
    if isinstance(data, Problem):
        raise _build_invalid([data])
    adapter, problems = check_document(data, file=file, model=Adapter, schema=ADAPTER_SCHEMA)
    if adapter is None:
        raise _build_invalid(problems)
    locks: dict[str, bytes] = {}
    for platform, name in _list_locks(adapter).items():
        lock = read(name, _MAX_LOCK_BYTES)
        if isinstance(lock, Problem):
            problems.append(lock)
        else:
            locks[platform] = lock
    problems += _iter_template_problems(adapter, file)
    problems += _iter_importer_problems(adapter, file)
    if problems:
        raise _build_invalid(problems)
    return LoadedAdapter(adapter=adapter, locks=locks, source=source)


def _list_locks(adapter: Adapter) -> dict[str, str]:
    match adapter.install:
        case NpmRecipe(lock=str() as lock):
            return {"any": lock}
        case PypiRecipe(locks=locks):
            return locks
        case _:
            return {}


def _read(path: Path, most: int) -> bytes | Problem:
    try:
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        return _problem(path.name, "", f"expected a file, found: {error.strerror or error}")
    if len(data) > most:
        return _problem(path.name, "", f"expected at most {most} bytes, found more")
    return data


def _iter_template_problems(adapter: Adapter, file: str) -> Iterator[Problem]:
    common = {name: text for name, text in PLACEHOLDERS.items() if name != "turns"}
    for field, template in _iter_templates(adapter):
        known = PLACEHOLDERS if field.startswith("caps.turns") else common
        for word in iter_unknown(template, known):
            near = next(iter(difflib.get_close_matches(word, list(known), n=1)), None)
            hint = f"did you mean {{{near}}}?" if near else f"known are {', '.join(sorted(known))}"
            message = f"expected a known placeholder, found {{{word}}}"
            yield _problem(file, field, message, hint=f"{hint}; {{{{{word}}}}} stands for the text itself")


def _iter_importer_problems(adapter: Adapter, file: str) -> Iterator[Problem]:
    for number, transcript in enumerate(adapter.transcripts):
        name = transcript.importer
        if name is None or name in IMPORTERS:
            continue
        near = difflib.get_close_matches(name, list(IMPORTERS), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(IMPORTERS))}"
        message = f"expected the name of an importer, found {name!r}"
        yield _problem(file, f"transcripts[{number}].importer", message, hint=hint)


def _iter_templates(adapter: Adapter) -> Iterator[tuple[str, str]]:
    launch = adapter.launch
    for number, template in enumerate(launch.argv):
        yield f"launch.argv[{number}]", template
    for number, argv in enumerate(launch.prepare):
        for position, template in enumerate(argv):
            yield f"launch.prepare[{number}][{position}]", template
    for number, template in enumerate(launch.probe):
        yield f"launch.probe[{number}]", template
    for name, template in launch.variables.items():
        yield f"launch.variables.{name}", template
    for name, template in launch.files.items():
        yield f"launch.files.{name}", template
    for number, template in enumerate(adapter.caps.turns):
        yield f"caps.turns[{number}]", template


def _problem(file: str, field: str, message: str, *, hint: str = "") -> Problem:
    return Problem(code="adapter-value", severity="error", file=file, field=field, message=message, hint=hint)


def _find_version(adapter: Adapter) -> str:
    match adapter.install:
        case NpmRecipe(packages=packages):
            return packages[0].rpartition("@")[2]
        case PypiRecipe(requirements=requirements):
            return requirements[0].rpartition("==")[2]
        case HostRecipe(version=version):
            return version
