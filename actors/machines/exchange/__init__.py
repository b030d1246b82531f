"""How batches and barriers pass between tasks: result partitions, input gates, credits, watermarks."""
