"""A store with a plan in it: everything that is done with both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from repotrial.fleet._board import Board
from repotrial.fleet._control import FleetStatus, build_status, iter_log, tell_stop
from repotrial.fleet._handed_in import Pulled, pull_records
from repotrial.fleet._shared_plan import (
    SharedPlan,
    find_other_class,
    load_plan,
    unpack_inputs,
    write_inputs,
    write_plan,
)
from repotrial.fleet._worker import WorkerEvent
from repotrial.fleet._worker_key import admit_worker
from repotrial.signing import SigningKey
from repotrial.store import Store


class FleetSite:
    """Workers and people meet here; the store alone is needed."""

    def __init__(self, store: Store, plan: SharedPlan) -> None:
        self.store = store
        self.plan = plan

    @classmethod
    def open(cls, store: Store) -> FleetSite:
        """The plan that is in a store.

        Raises:
            FLEET_PLAN: there is none that this release can read.
        """
        return cls(store, load_plan(store))

    @classmethod
    def create(cls, store: Store, plan: SharedPlan, inputs: Mapping[str, Path] | None = None) -> FleetSite:
        """Freeze a plan in a store, after what its runs need; the very same one may be there.

        Raises:
            STORE_IN_USE: there is another one.
        """
        site = cls(store, plan if inputs is None else plan.with_inputs(write_inputs(store, inputs)))
        write_plan(store, site.plan)
        return site

    def look(self) -> Board:
        """The state of all runs; one listing."""
        board = Board(self.plan, self.store)
        board.look()
        return board

    def read_status(self) -> FleetStatus:
        """How far the runs are; one listing."""
        return build_status(self.look(), self.plan, self.store)

    def read_log(self) -> list[WorkerEvent]:
        """What all workers said, in the order of their own clocks."""
        return sorted(iter_log(self.store), key=lambda event: event.at_us)

    def stop(self) -> bool:
        """Tell all workers to end; what is under way is sealed as it stands. False: they were told before."""
        return tell_stop(self.store)

    def pull(self, target: Path, *, is_counted_only: bool = False) -> Iterator[Pulled]:
        """Bring records here as run directories; what is here already stays.

        Raises:
            STORE_DIGEST: a record is not the one that was handed in.
        """
        return pull_records(self.look(), self.store, target, is_counted_only=is_counted_only)

    def unpack_inputs(self, target: Path) -> None:
        """Contracts and files as the plan's maker had them.

        Raises:
            STORE_DIGEST: they are others.
        """
        unpack_inputs(self.store, self.plan, target)

    def find_other_class(self, machine: Mapping[str, str]) -> str | None:
        """How this machine differs from the one that worked on the plan first; None: it does not (P30)."""
        return find_other_class(self.store, machine)

    def admit(self, name: str, *, study: SigningKey, work: Path) -> SigningKey:
        """A new key for a worker, with the study's word for it in the store.

        Raises:
            STUDY_KEY: the plan does not list the key that is to give the word.
        """
        return admit_worker(self.store, self.plan, study=study, name=name, work=work)
