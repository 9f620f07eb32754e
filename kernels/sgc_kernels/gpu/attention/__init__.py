"""Attention on NVIDIA GPUs."""
