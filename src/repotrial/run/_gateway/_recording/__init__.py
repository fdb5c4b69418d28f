"""Recordings of exchanges: made beside a run, replayed in the place of a provider."""

from __future__ import annotations

from repotrial.run._gateway._recording._difference import Difference
from repotrial.run._gateway._recording._document import RecordedExchange, RecordedRequest, RecordingHead
from repotrial.run._gateway._recording._files import Recording, RecordingUnreadableError, load_recording
from repotrial.run._gateway._recording._recorder import Recorder
from repotrial.run._gateway._recording._replay import Divergence, MatchMode, RecordingUpstream, ReplayReport

__all__ = [
    "Difference",
    "Divergence",
    "MatchMode",
    "RecordedExchange",
    "RecordedRequest",
    "Recorder",
    "Recording",
    "RecordingHead",
    "RecordingUnreadableError",
    "RecordingUpstream",
    "ReplayReport",
    "load_recording",
]
