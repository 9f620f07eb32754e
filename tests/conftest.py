"""Set-up of the whole suite."""

from __future__ import annotations

import os

# Read when torch is loaded. On a machine that does other work too, threads that wait busily for
# each other make a step of a model ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
