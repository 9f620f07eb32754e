"""The engine: one scheduler and one step loop over the KV pool."""
