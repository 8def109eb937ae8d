"""Benchmarks: `make bench`. What they measured, and on what machine, is in docs/performance.md once it was."""
