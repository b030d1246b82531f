"""Times all queries of Nexmark, compared with Structured Streaming and Spark: `python -m benchmarks.nexmark`."""
