"""Control groups: one for each sandbox, below the harness's own, in whichever hierarchies there are.

Both versions may be mounted side by side, each with some of the controllers. The newer one is taken where it
can do all that is done here; else the older one is, as far as that goes: to join both costs both.
Groups are made below the one that the harness is in, never beside or above: whatever was imposed on the
harness holds for its sandboxes too.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.isolation._label import build_label, parse_label
from repotrial.isolation._model import ResourceLimits
from repotrial.isolation._resources._counters import CounterFiles

Duty: TypeAlias = Literal["memory", "pids", "cpu", "freezer", "share", "pressure"]
"""What a group is for. `cpu` measures processor time, `share` divides it among sandboxes, `pressure` tells
how long a sandbox waited for it."""
CgroupVersion: TypeAlias = Literal["cgroup-v2", "cgroup-v1"]

_MEGABYTE: Final = 1024**2
_V1_CONTROLLERS: Final[Mapping[str, Duty]] = {
    "memory": "memory",
    "pids": "pids",
    "cpuacct": "cpu",
    "cpu": "share",
    "freezer": "freezer",
}
_V2_CONTROLLERS: Final = frozenset({"memory", "pids", "cpu"})
_TCP_MEGABYTES: Final = 32
"""The old version counts buffers of TCP by themselves, if they have a ceiling of their own."""
_OWN_PROCESSES: Final = 8
"""Our own processes in a group, beside the agent's: bubblewrap, PID 1, the entry, parents of commands."""
_REMOVAL_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.005
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


class CgroupHome(msgspec.Struct, frozen=True, kw_only=True):
    """A group of the harness's below which we can make others."""

    version: CgroupVersion
    directory: Path


class CgroupSite(msgspec.Struct, frozen=True, kw_only=True):
    """Which version does what on this machine; a duty that neither takes is missing."""

    homes: dict[Duty, CgroupHome]

    def version(self, duty: Duty) -> CgroupVersion | None:
        home = self.homes.get(duty)
        return None if home is None else home.version

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(home.directory for home in self.homes.values()))


class Cgroup:
    """The group of one sandbox.

    Raises:
        OSError: It could not be made, or does not take the limits; nothing is left of it.
    """

    def __init__(self, site: CgroupSite, limits: ResourceLimits) -> None:
        name = build_label()
        made = {directory: directory / name for directory in site.directories}
        self.directories: dict[Duty, Path] = {duty: made[home.directory] for duty, home in site.homes.items()}
        # Asked for many times in each run: path objects would cost more than the kernel does.
        self._places = [os.fspath(directory) for directory in made.values()]
        self._old_places = {
            os.fspath(made[home.directory]) for home in site.homes.values() if home.version == "cgroup-v1"
        }
        self._files = {duty: f"{directory}/" for duty, directory in self.directories.items()}
        self._counters = CounterFiles()
        self._site = site
        try:
            for place in self._places:
                os.mkdir(place, 0o755)  # noqa: PTH102
            self._set_limits(limits)
        except OSError:
            self.remove()
            raise

    def version(self, duty: Duty) -> CgroupVersion | None:
        return self._site.version(duty)

    @contextlib.contextmanager
    def open_join_fds(self) -> Iterator[list[int]]:
        """Descriptors by which a process with one thread can join; only the opener needs the right to.

        In the old version a thread that joins for itself disturbs no other. A process that does makes every
        fork on the machine wait until the kernel has seen all its readers off, which takes milliseconds.
        """
        with contextlib.ExitStack() as stack:
            join_fds = []
            for place in self._places:
                name = "tasks" if place in self._old_places else "cgroup.procs"
                descriptor = os.open(f"{place}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                join_fds.append(descriptor)
            yield join_fds

    def load_cpu_us(self) -> int:
        if self.version("cpu") == "cgroup-v2":
            return self._counters.load_fields(self._files["cpu"] + "cpu.stat")["usage_usec"]
        return int(self._counters.read(self._files["cpu"] + "cpuacct.usage")) // 1000

    def load_memory_bytes(self) -> int:
        """What is used now; files that the kernel keeps in memory count too."""
        is_new = self.version("memory") == "cgroup-v2"
        file = self._files["memory"] + ("memory.current" if is_new else "memory.usage_in_bytes")
        return int(self._counters.read(file))

    def load_peak_bytes(self) -> int | None:
        """The largest use since the group was made; None if the kernel does not keep it."""
        is_new = self.version("memory") == "cgroup-v2"
        file = self._files["memory"] + ("memory.peak" if is_new else "memory.max_usage_in_bytes")
        with contextlib.suppress(FileNotFoundError):
            return int(self._counters.read(file))
        return None

    def forget_peak(self) -> None:
        """Begin the peak anew, where the kernel can."""
        if self.version("memory") == "cgroup-v1":
            _write(self._files["memory"] + "memory.max_usage_in_bytes", "0")

    def count_memory_kills(self) -> int:
        is_new = self.version("memory") == "cgroup-v2"
        file = self._files["memory"] + ("memory.events" if is_new else "memory.oom_control")
        return self._counters.load_fields(file).get("oom_kill", 0)

    def count_refused_forks(self) -> int:
        return self._counters.load_fields(self._files["pids"] + "pids.events").get("max", 0)

    def load_starved_us(self) -> int | None:
        """How long all of it together waited for a processor; None if the kernel does not tell.

        Many busy processes of its own are no starvation: then some of it runs.
        """
        if self.version("pressure") is None:
            return None
        full = self._counters.read(self._files["pressure"] + "cpu.pressure").partition("full ")[2]
        return int(full.rpartition("=")[2]) if full else None

    def thaw(self) -> None:
        """Let everything run: what is frozen by the old version does not even die."""
        if self.version("freezer") == "cgroup-v1":
            _write(self._files["freezer"] + "freezer.state", "THAWED")
        elif self.version("freezer") == "cgroup-v2":
            _write(self._files["freezer"] + "cgroup.freeze", "0")

    def end(self) -> bool:
        """Kill everything in it and remove it; whether the kernel let it go in time."""
        self._counters.close()
        places = [*dict.fromkeys(self.directories.values())]
        return _end_all(places) == places

    def remove(self) -> bool:
        """Remove it once its last process is gone; whether that worked in time."""
        self._counters.close()
        removed = [_remove(place) for place in self._places]
        return all(removed)

    def _set_limits(self, limits: ResourceLimits) -> None:
        memory = self._files.get("memory")
        size = str(limits.memory_mb * _MEGABYTE)
        if memory is not None and self.version("memory") == "cgroup-v2":
            _write(memory + "memory.max", size)
            _try_write(memory + "memory.swap.max", "0")
        elif memory is not None:
            _write(memory + "memory.limit_in_bytes", size)
            # Memory and swap together; absent where the kernel does not count swap.
            _try_write(memory + "memory.memsw.limit_in_bytes", size)
            _try_write(memory + "memory.kmem.tcp.limit_in_bytes", str(_TCP_MEGABYTES * _MEGABYTE))
        pids = self._files.get("pids")
        if pids is not None:
            _write(pids + "pids.max", str(limits.processes + _OWN_PROCESSES))


def find_cgroup_site() -> CgroupSite:
    """Where groups can be made and used here; found out by making one."""
    found: dict[CgroupVersion, dict[Duty, CgroupHome]] = {"cgroup-v1": {}, "cgroup-v2": {}}
    for controllers, home in _iter_homes(_load_own_groups()):
        found[home.version] |= dict.fromkeys(_probe_home(home, controllers), home)
    return CgroupSite(homes=choose_homes(found["cgroup-v1"], found["cgroup-v2"]))


def choose_homes(old: Mapping[Duty, CgroupHome], new: Mapping[Duty, CgroupHome]) -> dict[Duty, CgroupHome]:
    """Who does what, of the groups of both versions that could; only the new version knows of pressure."""
    return {**old, **new} if old.keys() <= new.keys() else {**new, **old}


def reap_cgroups(site: CgroupSite) -> list[Path]:
    """Remove groups of harnesses that have ended, with whatever is still in them."""
    abandoned = [
        directory
        for home in site.directories
        for directory in home.glob("repotrial-*")
        if (label := parse_label(directory.name)) is not None and label.is_abandoned
    ]
    return _end_all(abandoned)


def _load_own_groups() -> dict[str, str]:
    """The harness's group by controller; the empty name stands for the new version."""
    groups: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text("utf-8", "surrogateescape").splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _iter_homes(own: Mapping[str, str]) -> Iterator[tuple[set[str], CgroupHome]]:
    """Mounted hierarchies that we are in, each with its controllers."""
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = (_unescape(field) for field in fields.split(" ")[3:5])
        if kind == "cgroup":
            controllers = set(options.split(",")) & _V1_CONTROLLERS.keys()
            for name in controllers & own.keys():
                yield {name}, CgroupHome(version="cgroup-v1", directory=_locate(point, root, own[name]))
        elif kind == "cgroup2" and "" in own:
            directory = settle_harness(_locate(point, root, own[""]))
            yield set(), CgroupHome(version="cgroup-v2", directory=directory)


def _locate(point: str, root: str, group: str) -> Path:
    """A group's directory, where only a part of the hierarchy may be mounted."""
    return Path(point) / os.path.relpath(group, root)


def settle_harness(directory: Path) -> Path:
    """Make controllers usable below the harness's own group of the new version, where that is ours to do.

    The new version hands controllers down only from groups without processes. So where the harness is alone
    in its group (a scope of its own), it moves into a group below, beside which the sandboxes then are.

    Returns:
        The group below which others can be made.
    """
    label = parse_label(directory.name)
    if label is not None:
        # This process, or the one that started it, has settled already, but maybe not come to the end of it.
        with contextlib.suppress(OSError):
            _enable(directory.parent)
        return directory.parent
    with contextlib.suppress(OSError):
        if not _enable(directory) and _is_alone(directory):
            home = directory / build_label()
            home.mkdir(0o755)
            move_members(directory, home)
            _enable(directory)
    return directory


def move_members(source: Path, target: Path) -> None:
    """Move every process of a group into another."""
    for pid in (source / "cgroup.procs").read_text("ascii").split():
        # It may end before its turn comes.
        with contextlib.suppress(ProcessLookupError):
            (target / "cgroup.procs").write_text(pid, "ascii")


def _enable(directory: Path) -> bool:
    """Hand down all controllers that we use and may have; whether that is done."""
    available = set((directory / "cgroup.controllers").read_text("ascii").split())
    enabled = set((directory / "cgroup.subtree_control").read_text("ascii").split())
    wanted = _V2_CONTROLLERS & (available - enabled)
    words = " ".join(f"+{name}" for name in sorted(wanted))
    return not wanted or _try_write(directory / "cgroup.subtree_control", words)


def _is_alone(directory: Path) -> bool:
    """Whether a group holds only this process and its own helpers."""
    pids = [int(pid) for pid in (directory / "cgroup.procs").read_text("ascii").split()]
    return all(os.getpid() in {pid, _load_parent(pid)} for pid in pids)


def _load_parent(pid: int) -> int:
    """Who started a process; we, for all that it matters, where it has ended."""
    try:
        return int(Path("/proc", str(pid), "stat").read_bytes().rpartition(b") ")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return os.getpid()


def _probe_home(home: CgroupHome, controllers: set[str]) -> set[Duty]:
    directory = home.directory / build_label()
    try:
        directory.mkdir(0o755)
    except OSError:
        return set()
    try:
        descriptor = os.open(directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.close(descriptor)
        if home.version == "cgroup-v1":
            return {_V1_CONTROLLERS[name] for name in controllers}
        available = (directory / "cgroup.controllers").read_text("ascii").split()
        duties: set[Duty] = {"freezer", "cpu"}
        if "memory" in available:
            duties.add("memory")
        if "pids" in available:
            duties.add("pids")
        if "cpu" in available:
            # A new group weighs as much as any other: to be in one of its own is the whole remedy.
            duties.add("share")
        # Where the accounting is off, the file is absent or refuses.
        with contextlib.suppress(OSError):
            (directory / "cpu.pressure").read_bytes()
            duties.add("pressure")
    except OSError:
        return set()
    else:
        return duties
    finally:
        _remove(directory)


def _kill_members(directory: Path) -> None:
    _try_write(directory / "freezer.state", "THAWED")
    if _try_write(directory / "cgroup.kill", "1"):
        return
    with contextlib.suppress(OSError):
        for pid in (directory / "cgroup.procs").read_text("ascii").split():
            # One that ended by itself must not save the others.
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


def _end_all(directories: Sequence[Path]) -> list[Path]:
    """Kill all that is in some groups, and remove them; those that the kernel let go in time."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    left = directories
    while True:
        # In all before any is removed: what one group lets go may be held by another, which is paused. And
        # again each time: a process that forks may have been quicker than the list.
        for directory in left:
            _kill_members(directory)
        left = [directory for directory in left if not _try_remove(directory)]
        if not left or time.monotonic() >= deadline:
            return [directory for directory in directories if directory not in left]
        time.sleep(_PAUSE_SECONDS)


def _remove(directory: Path | str) -> bool:
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while not _try_remove(directory):
        # Processes that have just been killed are still being taken apart.
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _try_remove(directory: Path | str) -> bool:
    try:
        os.rmdir(directory)  # noqa: PTH106 - may be text already
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _try_write(file: Path | str, text: str) -> bool:
    try:
        _write(file, text)
    except OSError:
        return False
    return True


def _write(file: Path | str, text: str) -> None:
    # Often, and never more than a line: a stream would cost more than the kernel does.
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def _unescape(text: str) -> str:
    """The kernel writes blanks and backslashes in octal."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
