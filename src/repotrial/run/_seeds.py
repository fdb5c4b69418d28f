"""Seeds of one run: streams below the root seed, handed to agent and tests through variables (P8, P10)."""

from __future__ import annotations

from typing import Final

from repotrial.contract import Environment, RunSpec
from repotrial.trace import Seeds, SeedStream

_STREAMS: Final = ("agent", "tests")
_SEED: Final = "REPOTRIAL_SEED"
_HASH_SEED: Final = "PYTHONHASHSEED"


def build_seeds(spec: RunSpec, environment: Environment) -> Seeds:
    """The streams of one run, and what they give; `numpy.random.SeedSequence` makes the same ones.

    What the contract sets or wants unset is left as it is. Both sides get one order of hashes: the agent's
    own test runs see what acceptance sees.
    """
    streams = tuple(
        SeedStream(name=name, spawn_key=(spec.replicate, place)) for place, name in enumerate(_STREAMS)
    )
    agent, tests = (_draw(spec.root_seed, stream.spawn_key) for stream in streams)
    fixed = {*environment.variables, *environment.absent}
    agent_variables = {_SEED: str(agent), _HASH_SEED: str(tests)}
    test_variables = {_SEED: str(tests), _HASH_SEED: str(tests)}
    return Seeds(
        root=spec.root_seed,
        streams=streams,
        test_variables={name: value for name, value in test_variables.items() if name not in fixed},
        agent_variables={name: value for name, value in agent_variables.items() if name not in fixed},
    )


def _draw(root: int, spawn_key: tuple[int, ...]) -> int:
    """32 bits: what every seeded program takes, Python's order of hashes included."""
    from numpy.random import SeedSequence

    return int(SeedSequence(root, spawn_key=spawn_key).generate_state(1)[0])
