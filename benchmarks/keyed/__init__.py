"""Times keyed state, compared with Structured Streaming's stateful operators: `python -m benchmarks.keyed`."""
