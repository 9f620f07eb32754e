"""What the benchmarks on a GPU share: a model made on the spot, ceilings, kernels, engines."""
