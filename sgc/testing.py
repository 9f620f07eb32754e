"""For tests of programs: backends that answer from a script, record calls and replay them."""

from sgc_runtime.backends.record import RecordingBackend
from sgc_runtime.backends.replay import ReplayBackend
from sgc_runtime.backends.scripted import ScriptedBackend

__all__ = ["RecordingBackend", "ReplayBackend", "ScriptedBackend"]
