"""Randomness (P8): every stream is spawned from the root seed, by replicate and purpose."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from repotrial.contract import RunSpec
from repotrial.environment import CONTROLLED_VARIABLES
from repotrial.trace import Seeds, SeedStream

StreamName: TypeAlias = Literal["agent", "tests"]
_STREAMS: Final[tuple[StreamName, ...]] = ("agent", "tests")


def build_seeds(spec: RunSpec) -> Seeds:
    """The streams of one run; `numpy.random.SeedSequence` makes the same ones from root and spawn key."""
    streams = tuple(
        SeedStream(name=name, spawn_key=(spec.replicate, place)) for place, name in enumerate(_STREAMS)
    )
    variables = {"PYTHONHASHSEED": CONTROLLED_VARIABLES["PYTHONHASHSEED"]}
    return Seeds(root=spec.root_seed, streams=streams, test_variables=variables)
