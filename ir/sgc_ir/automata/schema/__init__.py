"""JSON Schema to byte automata: resolve, normalise by type, intersect, emit."""
