"""The exchange between tasks: result partitions, input gates, credits, barriers, watermarks."""
