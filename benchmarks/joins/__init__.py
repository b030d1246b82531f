"""Times joins of two streams, compared with those of Structured Streaming: `python -m benchmarks.joins`."""
