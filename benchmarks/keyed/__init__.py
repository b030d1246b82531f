"""Keyed state, side by side with Structured Streaming's stateful operators: `python -m benchmarks.keyed`."""
