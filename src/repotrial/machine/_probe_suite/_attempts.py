"""All attempts."""

from __future__ import annotations

from typing import Final

from repotrial.isolation import Layer
from repotrial.machine._probe_suite._calls import CALLS
from repotrial.machine._probe_suite._model import Attempt, Evidence
from repotrial.machine._probe_suite._power import BOUNDS, PRIVILEGES, WORKSPACE
from repotrial.machine._probe_suite._reach import FILES, NETWORK, PROC, PROCESSES

PLANTED: Final = ("/usr/bin/planted", "/etc/planted", "/planted", "/dev/planted")
"""Files that appear on the host if an attempt succeeds."""

_EVIDENCE: Final[dict[str, Evidence]] = {
    "move-a-file-into-etc": "planted-file",
    "create-in-usr-bin": "planted-file",
    "create-in-etc": "planted-file",
    "create-in-the-root": "planted-file",
    "create-in-dev": "planted-file",
    "reach-a-service-on-the-host's-loopback": "connection",
    "send-a-datagram-to-the-host's-loopback": "datagram",
    "gain-by-a-setuid-bit-of-our-own": "owner",
    "leave-a-file-of-root": "owner",
}
_DESCRIPTORS: Final = frozenset(
    {
        "truncate-the-record-of-the-output",
        "reopen-the-output-as-a-file",
        "seek-in-the-output",
        "use-an-inherited-descriptor",
        "read-the-standard-input",
        "reach-a-directory-through-the-standard-input",
    }
)
_GROUPS: Final[tuple[tuple[Layer, dict[str, str]], ...]] = (
    ("mounts", FILES),
    ("processes", {**PROC, **PROCESSES}),
    ("network", NETWORK),
    ("privileges", {**PRIVILEGES, **BOUNDS}),
    ("workspace", WORKSPACE),
)

ATTEMPTS: Final[tuple[Attempt, ...]] = (
    *(
        Attempt(
            name=name,
            layer="descriptors" if name in _DESCRIPTORS else layer,
            program=program,
            evidence=_EVIDENCE.get(name, "kernel"),
        )
        for layer, programs in _GROUPS
        for name, program in programs.items()
    ),
    *(
        Attempt(
            name=f"call-{name}",
            layer="system-calls",
            program=call.code,
            refusals=call.refusals,
            recorded=call.recorded,
        )
        for name, call in CALLS.items()
    ),
)
"""Each has another name."""
