"""Kernels for CPUs, compiled by numba from explicit vector code."""
