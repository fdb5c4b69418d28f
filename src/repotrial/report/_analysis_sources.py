"""What the numbers of an analysis were computed from (X5): artefacts, and sets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repotrial._core.digest import digest_bytes
from repotrial.analysis import Analysis
from repotrial.report._document import Source

_OF_SETS = "of the digests of these artefacts, one line each"


def list_sources(analysis: Analysis, prefix: str) -> tuple[Source, ...]:
    """Every artefact, then every set of several that a number was computed from."""
    return (*_iter_artefacts(analysis, prefix), *_iter_sets(analysis, prefix))


def name_source(analysis: Analysis, prefix: str, names: Sequence[str]) -> str:
    """The anchor of the artefacts with these names; of all of them if there are none."""
    places = _find_places(analysis, names)
    if 1 < len(places) == len(analysis.artefacts):
        return f"{prefix}artefacts"
    return f"{prefix}artefact{'-'.join(map(str, places))}" if places else ""


def _find_places(analysis: Analysis, names: Sequence[str]) -> list[int]:
    wanted = set(names) or {found.name for found in analysis.artefacts}
    return [place for place, found in enumerate(analysis.artefacts) if found.name in wanted]


def _iter_artefacts(analysis: Analysis, prefix: str) -> Iterator[Source]:
    for place, found in enumerate(analysis.artefacts):
        is_set = found.files > 1 or found.name.startswith("runs of ")
        yield Source(
            name=f"{prefix}artefact{place}",
            file=f"{found.name} ({found.files} runs below {found.file}/)" if is_set else found.file,
            digest=found.digest,
            words="of the sorted lines `digest of seal.json, two spaces, directory`"
            if is_set
            else "of its bytes",
        )


def _iter_sets(analysis: Analysis, prefix: str) -> Iterator[Source]:
    named = {arm.computed_from for arm in analysis.arms} | {one.computed_from for one in analysis.contrasts}
    every = tuple(found.name for found in analysis.artefacts if found.name.startswith("runs of "))
    seen = set()
    for names in sorted({*named, every, ()}):
        places = _find_places(analysis, names)
        name = name_source(analysis, prefix, names)
        if len(places) < 2 or name in seen:  # noqa: PLR2004 - a set of one is an artefact
            continue
        seen.add(name)
        used = [analysis.artefacts[place] for place in places]
        yield Source(
            name=name,
            file=", ".join(found.name for found in used),
            digest=digest_bytes("\n".join(found.digest for found in used).encode()),
            words=_OF_SETS,
        )
