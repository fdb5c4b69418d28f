"""Agents as data: adapters of real agents, their installation, and how they are launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.agents._check import AgentCheck, check_agent
    from repotrial.agents._install import InstalledAgent, find_installed, install_agent, open_agent
    from repotrial.agents._launch import AGENT_HOME, Launch, LaunchOrder, build_launch, fill_home
    from repotrial.agents._load import (
        ADAPTER_UNKNOWN,
        LoadedAdapter,
        find_adapter,
        list_adapters,
        load_adapter,
    )
    from repotrial.agents._model import FileTranscript, StdoutTranscript, Transcript, build_adapter_schema
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "ADAPTER_UNKNOWN",
    "AGENT_HOME",
    "AgentCheck",
    "FileTranscript",
    "InstalledAgent",
    "Launch",
    "LaunchOrder",
    "LoadedAdapter",
    "StdoutTranscript",
    "Transcript",
    "build_adapter_schema",
    "build_launch",
    "check_agent",
    "fill_home",
    "find_adapter",
    "find_installed",
    "install_agent",
    "list_adapters",
    "load_adapter",
    "open_agent",
]
