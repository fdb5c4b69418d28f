"""Agents by name, as a command line gives them."""

from __future__ import annotations

import difflib
import glob
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.escaping import normalize_name
from repotrial.agents import LoadedAdapter, list_adapters, load_adapter
from repotrial.run import (
    Agent,
    CommandAgent,
    HumanAgent,
    ModelAgent,
    NoopAgent,
    PatchAgent,
    ReferenceAgent,
    ScriptAgent,
    load_agent_file,
    short_version,
)

AGENT_FORMS: Final = (
    "noop",
    "reference",
    "human",
    "patch:FILE",
    "script:FILE",
    "command:PROGRAM ARGS",
    "predictions:FILE",
    "NAME[@MODEL] of `repotrial agent list`",
    "agent:FILE.toml[@MODEL]",
)

_PLAIN: Final[dict[str, Agent]] = {"noop": NoopAgent(), "reference": ReferenceAgent(), "human": HumanAgent()}
_FILE_KINDS: Final = ("patch", "script")
_MOST_NAME_CHARACTERS: Final = 60
_LINE_BREAKS: Final = re.compile(rb"\r?\n")
_PLACEHOLDER: Final = "{contract}"
"""In the name of a file, stands for the id of each contract in turn."""


AGENT_NAME = ErrorCode(
    "agent-name", UsageError, "There is no such agent.", hint=f"name one of: {', '.join(AGENT_FORMS)}"
)
PREDICTIONS = ErrorCode(
    "predictions",
    UsageError,
    "A file of predictions is not one: some line is no prediction, or an instance has two of one model.",
    hint="write one JSON object per line, with instance_id, model_name_or_path and model_patch",
)


class _Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a SWE-bench predictions file; other keys are of no interest."""

    instance_id: str
    model_name_or_path: str
    model_patch: str | None = None


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """Who is put on trial."""

    agents: tuple[tuple[Agent, str | None], ...]
    """Each with the id of the only contract that it is for, or none."""
    unmatched: tuple[str, ...]
    """Instances of predictions for which no contract was named."""


def build_roster(
    names: Sequence[str],
    contract_ids: Iterable[str],
    *,
    adapters: Path | None = None,
    model: str | None = None,
) -> Roster:
    """The agents of these names.

    Args:
        names: See `AGENT_FORMS`.
        contract_ids: Contracts that predictions may be for, and that `{contract}` stands for.
        adapters: The user's own directory of adapters.
        model: For agents that ask a model, and whose name does not say which; each has its own default.

    Raises:
        AGENT_NAME: there is none of that name.
        ADAPTER_INVALID: an adapter is not sound.
        AGENT_FILE: a file that one is made of cannot be read.
        PREDICTIONS: a file of predictions is not one.
    """
    ids = tuple(contract_ids)
    by_form = {normalize_name(contract_id): contract_id for contract_id in ids}
    agents: list[tuple[Agent, str | None]] = []
    unmatched: list[str] = []
    for name in names:
        kind, separator, rest = name.partition(":")
        if kind in _FILE_KINDS and _PLACEHOLDER in rest:
            agents += _iter_templated(kind, rest, ids)
            continue
        if kind != "predictions" or not separator:
            found = _find_model_agent(name, adapters=adapters, model=model)
            agents.append((found or _build_agent(name, kind, rest), None))
            continue
        for instance, agent in _iter_predictions(Path(rest)):
            only = by_form.get(normalize_name(instance))
            if only is None:
                unmatched.append(instance)
            else:
                agents.append((agent, only))
    return Roster(agents=tuple(agents), unmatched=tuple(unmatched))


def _find_model_agent(name: str, *, adapters: Path | None, model: str | None) -> ModelAgent | None:
    """An agent that asks a model; None where the name is of another form."""
    head, _, chosen = name.partition("@")
    if name.startswith("agent:"):
        # A file may have the sign in its name.
        path = Path(name.removeprefix("agent:"))
        if not path.exists() and "@" in path.name:
            head, _, chosen = name.rpartition("@")
            path = Path(head.removeprefix("agent:"))
        else:
            chosen = ""
        return _build_model_agent(load_adapter(path), chosen or model)
    if name in _PLAIN or ":" in head:
        return None
    found = {item.adapter.name: item for item in list_adapters(adapters)}
    if head in found:
        return _build_model_agent(found[head], chosen or model)
    near = difflib.get_close_matches(head, [*found, *_PLAIN], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise AGENT_NAME.error(
        f"expected the name of an agent, found {name!r}",
        hint=f"{hint}{AGENT_NAME.hint}",
    )


def _build_model_agent(loaded: LoadedAdapter, model: str | None) -> ModelAgent:
    name = loaded.adapter.name
    return ModelAgent(
        name=f"agent-{name}" if name in _PLAIN else name,
        adapter=loaded,
        model=model or loaded.adapter.model,
    )


def _build_agent(name: str, kind: str, rest: str) -> Agent:
    if name in _PLAIN:
        return _PLAIN[name]
    if not rest:
        raise AGENT_NAME.error(f"expected the name of an agent, found {name!r}")
    match kind:
        case "patch" | "script":
            data = load_agent_file(Path(rest))
            return _build_file_agent(kind, data, name=_name(Path(rest).stem, kind))
        case "command":
            argv = _split(rest)
            return CommandAgent(name=_name(Path(argv[0]).name, kind), argv=argv)
        case _:
            raise AGENT_NAME.error(f"expected the name of an agent, found {name!r}")


def _build_file_agent(
    kind: str, data: bytes, *, name: str, version: str | None = None
) -> PatchAgent | ScriptAgent:
    if kind == "patch":
        return PatchAgent(name=name, patch=data, version=version)
    return ScriptAgent(name=name, script=data, version=version)


def _iter_templated(kind: str, template: str, contract_ids: Iterable[str]) -> Iterator[tuple[Agent, str]]:
    """For each contract its own file; all files of one template are one agent.

    Its version is that of all files that the template fits, so that it does not change with the contracts
    that a command names.
    """
    pattern = glob.escape(template).replace(_PLACEHOLDER, "*")
    found = sorted(glob.glob(pattern))  # noqa: PTH207 - `Path.glob` takes no absolute pattern
    files = [path for path in map(Path, found) if path.is_file()]
    version = short_version(canonical_digest([digest_bytes(load_agent_file(path)) for path in files]))
    name = _name(Path(template).stem.replace(_PLACEHOLDER, ""), kind)
    for contract_id in contract_ids:
        data = load_agent_file(Path(template.replace(_PLACEHOLDER, contract_id)))
        yield _build_file_agent(kind, data, name=name, version=version), contract_id


def _split(words: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(words))
    except ValueError as error:
        raise AGENT_NAME.error(f"command: expected words as a shell reads them, found: {error}") from error
    if not argv:
        raise AGENT_NAME.error(f"command: expected a program, found {words!r}")
    return argv


def _iter_predictions(path: Path) -> Iterator[tuple[str, PatchAgent]]:
    data = load_agent_file(path)
    version = short_version(digest_bytes(data))
    seen: dict[tuple[str, str], int] = {}
    # Not `splitlines`: some characters inside a JSON text would count as line breaks.
    for number, line in enumerate(_LINE_BREAKS.split(data), start=1):
        if not line.strip():
            continue
        try:
            found = msgspec.json.decode(line, type=_Prediction)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PREDICTIONS.error(f"{path}:{number}: expected a prediction, found: {error}") from error
        key = (normalize_name(found.instance_id), found.model_name_or_path)
        if key in seen:
            raise PREDICTIONS.error(
                f"{path}:{number}: expected one prediction of {found.model_name_or_path} for "
                f"{found.instance_id}, found another in line {seen[key]}"
            )
        seen[key] = number
        patch = (found.model_patch or "").encode("utf-8", "surrogatepass")
        name = _name(found.model_name_or_path, "predictions")
        yield found.instance_id, PatchAgent(name=name, patch=patch, version=version)


def _name(text: str, kind: str) -> str:
    """How reports call an agent that a file or a program makes; never like one of ours."""
    name = normalize_name(text)[:_MOST_NAME_CHARACTERS].strip("-") or kind
    return f"{kind}-{name}" if name in _PLAIN else name
