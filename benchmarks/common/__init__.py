"""What the benchmarks share: data, workloads, engines, timing and result files."""
