"""The list of runs: a disposable SQLite index, kept up to date, that is searched in milliseconds.

Files are the truth (ADR 0005): whatever the index says was computed from a run directory by the same judges
that every command uses, and is computed anew when the directory changes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial import __version__
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.viewer._places import FoundRun, Surroundings
from repotrial.viewer._run_text import RunText, read_run

VIEWER_INDEX = ErrorCode(
    "viewer-index",
    MachineError,
    "The viewer cannot make its index of runs: the disk refuses, or SQLite has no search by trigrams.",
    hint="name another directory with --cache; SQLite must be 3.34 or newer, with FTS5 "
    "(python3 -c 'import sqlite3; print(sqlite3.sqlite_version)')",
)
_SCHEMA: Final = """
CREATE TABLE about (what TEXT PRIMARY KEY, value TEXT);
CREATE TABLE runs (
  key TEXT PRIMARY KEY, path TEXT, place TEXT, pilot TEXT, state TEXT, signature TEXT, is_withheld INTEGER,
  contract TEXT, agent TEXT, model TEXT, replicate INTEGER, status TEXT, cause TEXT, started_at_us INTEGER,
  wall_seconds REAL, cost_usd REAL, tokens INTEGER, score REAL, why TEXT, run_id TEXT
);
CREATE INDEX by_start ON runs (started_at_us DESC, key);
CREATE VIRTUAL TABLE texts USING fts5(key UNINDEXED, open, verdict, tokenize = 'trigram');
"""
_LEAST_CHARACTERS: Final = 3
"""A trigram index answers no shorter question."""
_BATCH: Final = 25
COLUMNS: Final = (
    "started_at_us", "contract", "agent", "model", "replicate", "state", "status", "cause", "wall_seconds",
    "cost_usd", "tokens", "score", "place",
)  # fmt: skip
"""What the list can be sorted by."""
_VERDICT: Final = ("status", "score", "why")
"""What a pilot that is under way does not show (P29)."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list; null where nothing is known, or where it is withheld."""

    key: str
    path: str
    place: str
    pilot: str
    state: str
    is_withheld: bool
    """Whether the verdict is kept back, since its pilot is under way."""
    contract: str | None
    agent: str | None
    model: str | None
    replicate: int | None
    status: str | None
    cause: str | None
    started_at_us: int | None
    wall_seconds: float | None
    cost_usd: float | None
    tokens: int | None
    score: float | None
    why: str | None
    run_id: str | None


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs, in which order; as an address has it."""

    text: str = ""
    status: str = ""
    state: str = ""
    agent: str = ""
    contract: str = ""
    cause: str = ""
    pilot: str = ""
    sort: str = "started_at_us"
    is_descending: bool = True


class RunCatalog:
    """All runs below one directory."""

    def __init__(self, root: Path, cache: Path) -> None:
        name = digest_bytes(str(root.resolve()).encode("utf-8", "surrogateescape"))
        self._file = cache / f"{name.removeprefix('sha256:')[:32]}.sqlite"
        self._lock = threading.Lock()
        self._base = self._open()
        self.version = 0
        """Counts changes; live pages ask for it."""
        self.due = 0
        """Runs that are still to be read."""

    def _open(self) -> sqlite3.Connection:
        # What it holds was read from run directories, which others may not be allowed to read.
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            base = self._connect()
            found = base.execute("SELECT value FROM about WHERE what = 'version'").fetchone()
            if found == (__version__,):
                return base
            base.close()
        except sqlite3.DatabaseError:  # none yet, of another release, or no database at all
            pass
        self._file.unlink(missing_ok=True)
        base = self._connect()
        try:
            base.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            base.close()
            raise VIEWER_INDEX.error(f"{self._file}: expected to make an index, found: {error}") from error
        base.execute("INSERT INTO about VALUES ('version', ?)", (__version__,))
        base.commit()
        return base

    def _connect(self) -> sqlite3.Connection:
        base = sqlite3.connect(self._file, check_same_thread=False)
        base.execute("PRAGMA synchronous = OFF")  # it is disposable
        return base

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._base.close()

    def update(self, found: Surroundings, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Take in what is new on the disk, the newest runs first, and forget what is gone."""
        over = {pilot.key: pilot.is_over for pilot in found.pilots}
        with self._lock:
            known = {
                key: (signature, withheld)
                for key, signature, withheld in self._base.execute(
                    "SELECT key, signature, is_withheld FROM runs"
                )
            }
            gone = known.keys() - {run.key for run in found.runs}
            self._forget(gone)
        due = [
            run
            for run in found.runs
            if known.get(run.key) != (run.signature, int(not over.get(run.pilot, True)))
        ]
        self.due = len(due)
        due.sort(key=lambda run: run.signature.rpartition(".")[2], reverse=True)
        for start in range(0, len(due), _BATCH):
            if is_stopped():
                return
            batch = [(run, read_run(run)) for run in due[start : start + _BATCH]]
            with self._lock:
                self._forget({run.key for run, _ in batch})
                for run, text in batch:
                    self._insert(run, text, is_withheld=not over.get(run.pilot, True))
                self._base.commit()
            self.due -= len(batch)
            self.version += 1
        if gone:
            self.version += 1

    def _forget(self, keys: Iterable[str]) -> None:
        for table in ("runs", "texts"):
            self._base.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])  # noqa: S608 - two names of ours
        self._base.commit()

    def _insert(self, run: FoundRun, text: RunText, *, is_withheld: bool) -> None:
        values: dict[str, Any] = {
            "key": run.key,
            "path": _keep(str(run.path)),
            "place": _keep(run.place),
            "pilot": run.pilot,
            "state": run.state,
            "signature": run.signature,
            "is_withheld": int(is_withheld),
            **{name: _keep(value) for name, value in text.facts.items()},
        }
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        self._base.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", values)  # noqa: S608 - names of ours
        self._base.execute(
            "INSERT INTO texts (key, open, verdict) VALUES (?, ?, ?)",
            (run.key, _keep(text.open), _keep(text.verdict)),
        )

    def find(self, query: ListQuery, *, first: int, most: int) -> tuple[list[ListedRun], int]:
        """A page of the list, and how many runs fit in all."""
        where, values = _build_where(query)
        with self._lock:
            total = self._base.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()[0]  # noqa: S608 - see `_build_where`
            rows = self._select(where, values, f"{_build_order(query)} LIMIT {most} OFFSET {first}")
        return rows, total

    def find_place(self, query: ListQuery, key: str) -> tuple[int, list[str]]:
        """Where a run stands in a list, from 0, and all keys of it; -1 if it is not in it."""
        where, values = _build_where(query)
        with self._lock:
            found = self._base.execute(
                f"SELECT key FROM runs WHERE {where} {_build_order(query)}",  # noqa: S608 - see `_build_where`
                values,
            )
            keys = [row[0] for row in found]
        return (keys.index(key) if key in keys else -1), keys

    def load(self, key: str) -> ListedRun | None:
        """One run; None if there is none of that key."""
        with self._lock:
            return next(iter(self._select("key = ?", [key], "")), None)

    def list_values(self, column: str, most: int = 200) -> list[str]:
        """The values that a filter can have."""
        assert column in COLUMNS
        with self._lock:
            found = self._base.execute(
                f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL ORDER BY 1 LIMIT ?",  # noqa: S608 - a name of ours
                [most],
            )
            return [str(row[0]) for row in found]

    def count(self) -> int:
        """All runs that are known."""
        with self._lock:
            return int(self._base.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _select(self, where: str, values: Sequence[Any], rest: str) -> list[ListedRun]:
        names = ListedRun.__struct_fields__
        columns = ", ".join(
            f"CASE WHEN is_withheld THEN NULL ELSE {name} END" if name in _VERDICT else name for name in names
        )
        with closing(self._base.cursor()) as cursor:
            found = cursor.execute(f"SELECT {columns} FROM runs WHERE {where} {rest}", values)  # noqa: S608 - as above
            return [
                msgspec.convert(dict(zip(names, row, strict=True)), ListedRun, strict=False) for row in found
            ]


def _build_where(query: ListQuery) -> tuple[str, list[Any]]:
    """A condition of fixed parts; whatever a reader typed is a value."""
    parts, values = ["1"], list[Any]()
    for name in ("state", "agent", "contract", "cause", "pilot"):
        if value := getattr(query, name):
            parts.append(f"{name} = ?")
            values.append(value)
    if query.status:
        parts.append("status = ? AND NOT is_withheld")
        values.append(query.status)
    for word in query.text.split():
        part, given = _match(word)
        parts.append(part)
        values += given
    return " AND ".join(parts), values


def _match(word: str) -> tuple[str, list[str]]:
    """Runs with a word in what may be read of them; while a pilot is under way, that is who and what."""
    if len(word) >= _LEAST_CHARACTERS:
        quoted = '"' + word.replace('"', '""') + '"'
        everywhere, open_only = ("texts MATCH ?", quoted), ("texts MATCH ?", f"open : {quoted}")
    else:
        escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        everywhere = ("open || ' ' || verdict LIKE ? ESCAPE '\\'", f"%{escaped}%")
        open_only = ("open LIKE ? ESCAPE '\\'", f"%{escaped}%")
    part = (
        f"(key IN (SELECT key FROM texts WHERE {open_only[0]}) OR "  # noqa: S608 - fixed parts
        f"(NOT is_withheld AND key IN (SELECT key FROM texts WHERE {everywhere[0]})))"
    )
    return part, [open_only[1], everywhere[1]]


def _build_order(query: ListQuery) -> str:
    column = query.sort if query.sort in COLUMNS else "started_at_us"
    if column in _VERDICT:  # an order by verdict would tell what is withheld
        column = f"CASE WHEN is_withheld THEN NULL ELSE {column} END"
    way = "DESC" if query.is_descending else "ASC"
    return f"ORDER BY ({column}) IS NULL, {column} {way}, started_at_us DESC, key"


def _keep(value: Any) -> Any:
    """Names of files may be no text, which no database holds."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
