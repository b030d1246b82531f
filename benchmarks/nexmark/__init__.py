"""All of Nexmark, compared with Structured Streaming and a plain Spark batch: `python -m benchmarks.nexmark`."""
