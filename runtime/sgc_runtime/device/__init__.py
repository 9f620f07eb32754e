"""Steps on a GPU: the slot table, uploads, graphs, and the runner that the engine's core drives."""
