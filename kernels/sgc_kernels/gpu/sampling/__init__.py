"""Sampling on the GPU: token masks, filters and draws in one read of the logits."""
