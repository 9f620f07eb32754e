"""KV pool and radix tree over token ids."""
