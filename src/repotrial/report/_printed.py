"""What programs printed, as a page shows it: the end of it, where a person looks first."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial.trace import BlobStore, Event, KeptStream, NotStarted, PrintingProgram, RunPaths

_MOST_LINES: Final = 40
_MOST_CHARACTERS: Final = 8 * 1024
_MOST_OF_ONE: Final = 4
_MOST: Final = 60
_CHARACTER_BYTES: Final = 4


class StreamTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one stream."""

    name: str
    text: str
    note: str
    """How long the stream was, and what of it is not here."""
    lost: str | None
    """What the record refers to and the directory does not have; null where nothing is lost."""


class ProgramTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of what one execution printed."""

    seq: int
    label: str
    ended: str
    streams: tuple[StreamTail, ...]


class PrintedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of outputs."""

    programs: tuple[ProgramTail, ...]
    """Of the agent, and of applying the change where that failed."""
    checks: dict[str, tuple[ProgramTail, ...]]
    """Of executions that did not pass, by check."""
    left_out: dict[str, int]
    """So many more of a check are not shown."""


class PrintedKeeper:
    """Chooses executions while events stream by, with bounded memory."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._blobs = BlobStore(paths.blobs)
        self._kept: dict[tuple[str, bool], list[ProgramTail]] = {}
        self._left_out: dict[str, int] = {}
        self._count = 0

    def take(self, event: Event, *, is_moot: bool) -> None:
        program = PrintingProgram.find(event)
        if program is None or program.is_passed or is_moot or isinstance(program.exit, NotStarted):
            return
        is_check = program.kind == "check"
        of_one = self._kept.setdefault((program.name, is_check), [])
        if len(of_one) >= _MOST_OF_ONE or self._count >= _MOST:
            if is_check:
                self._left_out[program.name] = self._left_out.get(program.name, 0) + 1
            return
        self._count += 1
        of_one.append(self._build(program))

    def _build(self, program: PrintingProgram) -> ProgramTail:
        outputs = {"stdout": program.stdout, "stderr": program.stderr}
        return ProgramTail(
            seq=program.seq,
            label=program.label,
            ended=program.ended,
            streams=tuple(
                self._cut(name, output.load(self._blobs))
                for name, output in outputs.items()
                if output is not None
            ),
        )

    def _cut(self, name: str, stream: KeptStream) -> StreamTail:
        lines = stream.data.removesuffix(b"\n").split(b"\n")
        end = b"\n".join(lines[-_MOST_LINES:])[-_MOST_CHARACTERS * _CHARACTER_BYTES :]
        text = end.decode("utf-8", "backslashreplace")
        is_cut = len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS
        # The same wherever the run directory lies.
        lost = None if stream.lost is None else stream.lost.replace(f"{self._paths.root}/", "")
        return StreamTail(
            name=name, text=text[-_MOST_CHARACTERS:], note=_describe(stream, is_cut=is_cut), lost=lost
        )

    def build(self) -> PrintedPage:
        return PrintedPage(
            programs=tuple(
                tail for (_, is_check), tails in self._kept.items() if not is_check for tail in tails
            ),
            checks={name: tuple(tails) for (name, is_check), tails in self._kept.items() if is_check},
            left_out=self._left_out,
        )


def _describe(stream: KeptStream, *, is_cut: bool) -> str:
    if not stream.length_bytes:
        return "empty"
    printed = f"{stream.length_bytes} bytes"
    if not stream.data and not stream.is_whole:
        return f"{printed}, none of which are left"
    if not stream.is_whole:
        kept = f"{printed}, of which the first {len(stream.data)} are left"
        return f"{kept}; the end of those" if is_cut else kept
    return f"the end of {printed}" if is_cut else printed
