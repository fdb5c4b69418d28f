"""How a sandbox came by processor time while one command ran in it: measured outside, judged elsewhere."""

from __future__ import annotations

import msgspec

from repotrial._core.canonical import Count


class ProcessorPressure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What one sandbox got of the processors, and what it had to wait for."""

    wall_us: Count
    """How long the command ran."""
    processors: Count
    """Of the machine."""
    sandboxes: Count
    """In which this harness ran a command at the same time, this one included: the most that were seen."""
    own_us: Count
    """Processor time that the sandbox used."""
    others_us: Count
    """Processor time that everything else on the machine used."""
    stalled_us: Count | None = None
    """Time in which programs of the sandbox wanted to run and none of them did; null if no group tells."""
    waited_us: Count | None = None
    """Time that its threads waited for a processor, together, as samples saw it; null if none was taken."""
    is_yielding: bool = False
    """Whether one of its programs had put itself behind those of others."""
