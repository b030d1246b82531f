"""Joins of two streams, side by side with Structured Streaming's symmetric hash join: `python -m benchmarks.joins`."""
