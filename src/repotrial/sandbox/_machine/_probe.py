"""What this machine can do: what each back end found out about itself, and what they stand on."""

from __future__ import annotations

import msgspec

from repotrial.sandbox._levels._back_end import Finding
from repotrial.sandbox._levels._back_ends.bubblewrap import find_bubblewrap
from repotrial.sandbox._open import probe_machine
from repotrial.sandbox._resources._cgroups import CgroupSite
from repotrial.sandbox._resources._reaper import load_site


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found out."""

    findings: tuple[Finding, ...]
    """Strongest level first."""
    site: CgroupSite
    version: tuple[int, ...]
    """Of bubblewrap; empty if there is none."""


def survey_machine() -> Survey:
    """Try every level."""
    return Survey(findings=probe_machine(), site=load_site(), version=find_bubblewrap()[1])
