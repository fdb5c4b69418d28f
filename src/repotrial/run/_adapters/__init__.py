"""Agents that ask a model, as data: how to get them, to start them, and to find what they wrote."""

from repotrial.run._adapters._check import AgentCheck, CheckedNeed, check_agent
from repotrial.run._adapters._home import fill_home
from repotrial.run._adapters._install import (
    AgentProgramMissingError,
    InstalledAgent,
    InstalledTree,
    find_installed,
    find_runtime,
    hold_agent,
    install_agent,
    open_agent,
)
from repotrial.run._adapters._launch import (
    AGENT_HOME,
    AGENT_PREFIX,
    Launch,
    LaunchOrder,
    ModelNameError,
    build_launch,
)
from repotrial.run._adapters._load import (
    AdapterInvalidError,
    AdapterUnknownError,
    LoadedAdapter,
    find_adapter,
    list_adapters,
    load_adapter,
)
from repotrial.run._adapters._model import (
    ADAPTER_SCHEMA,
    Adapter,
    AdapterCaps,
    AdapterLaunch,
    FileTranscript,
    HostRecipe,
    NpmRecipe,
    PypiRecipe,
    Quirk,
    Recipe,
    StdoutTranscript,
    Transcript,
)
from repotrial.run._adapters._schema import build_adapter_schema
from repotrial.run._adapters._template import PLACEHOLDERS, fill_template
from repotrial.run._adapters._transcripts import (
    CollectedFile,
    Collection,
    SkippedFile,
    collect_transcripts,
)

__all__ = [
    "ADAPTER_SCHEMA",
    "AGENT_HOME",
    "AGENT_PREFIX",
    "PLACEHOLDERS",
    "Adapter",
    "AdapterCaps",
    "AdapterInvalidError",
    "AdapterLaunch",
    "AdapterUnknownError",
    "AgentCheck",
    "AgentProgramMissingError",
    "CheckedNeed",
    "CollectedFile",
    "Collection",
    "FileTranscript",
    "HostRecipe",
    "InstalledAgent",
    "InstalledTree",
    "Launch",
    "LaunchOrder",
    "LoadedAdapter",
    "ModelNameError",
    "NpmRecipe",
    "PypiRecipe",
    "Quirk",
    "Recipe",
    "SkippedFile",
    "StdoutTranscript",
    "Transcript",
    "build_adapter_schema",
    "build_launch",
    "check_agent",
    "collect_transcripts",
    "fill_home",
    "fill_template",
    "find_adapter",
    "find_installed",
    "find_runtime",
    "hold_agent",
    "install_agent",
    "list_adapters",
    "load_adapter",
    "open_agent",
]
