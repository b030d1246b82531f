"""All of Nexmark, side by side with Structured Streaming and a plain Spark batch: `python -m benchmarks.nexmark`."""
