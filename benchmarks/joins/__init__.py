"""Joins of two streams, compared with Structured Streaming's symmetric hash join: `python -m benchmarks.joins`."""
