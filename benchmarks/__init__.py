"""Benchmarks of speed and memory, in comparison with other engines. Not installed: run them from the repository."""
