"""Whether a sandbox that is wanted can be had at a level; nothing of it is left out in silence."""

from __future__ import annotations

from repotrial.sandbox._model import Capabilities, DirectoryRoot, HostRoot, Level, SandboxSpec

__all__ = ["check_fit"]

_ON_HOST = frozenset({Level.L1, Level.L0})
"""Levels whose programs see the host's own tree of files."""


def check_fit(spec: SandboxSpec, capabilities: Capabilities) -> list[str]:
    """What of a specification this back end cannot give: what was expected, and what was found."""
    level = capabilities.level
    found = []
    if spec.overlay is not None and not capabilities.has_overlay:
        found.append("expected a copied workspace, found an overlay")
    if isinstance(spec.root, DirectoryRoot) and not capabilities.has_images:
        found.append("expected the machine's own files, found an image")
    if isinstance(spec.root, HostRoot) and level is Level.L3C:
        found.append("expected an image, found the machine's own files, which a container cannot run on")
    if spec.test_tools and not capabilities.has_stages:
        found.append("expected no tools to mask until the test stage, found some")
    if level in _ON_HOST:
        moved = [bind.target for bind in spec.binds if bind.target != str(bind.source)]
        found += [f"expected every bind at its own path, found {target}" for target in moved]
        found += [f"expected no scratch directories of its own, found {own.target}" for own in spec.scratch]
        if spec.listener_port is not None:
            found.append(f"expected no listener, found port {spec.listener_port}: there is no network inside")
    return found
