"""For tests of programs: a backend that answers from a script and logs every call."""

from sgc_runtime.backends.scripted import ScriptedBackend

__all__ = ["ScriptedBackend"]
