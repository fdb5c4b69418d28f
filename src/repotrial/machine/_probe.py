"""What this machine can do: what each back end found out about itself, and what they stand on."""

from __future__ import annotations

import msgspec

from repotrial.isolation import CgroupSite, Finding, find_bubblewrap, load_site, probe_machine


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
