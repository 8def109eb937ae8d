"""Benchmarks in memory, without sockets: what one part costs by itself."""
