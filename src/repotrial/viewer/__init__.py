"""The live local server of `report serve`: it reads what runs leave, and drops answers into inboxes."""

from __future__ import annotations

from repotrial.viewer._guard import ViewerGuard
from repotrial.viewer._server import serve_directory
from repotrial.viewer._state import ViewerPorts, ViewerSettings
from repotrial.viewer._trace_index import TraceIndex

__all__ = ["TraceIndex", "ViewerGuard", "ViewerPorts", "ViewerSettings", "serve_directory"]
