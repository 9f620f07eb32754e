"""Kernels for CPUs, compiled by LLVM from explicit vector code."""
