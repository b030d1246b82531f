"""Messages of Tasks and their bridges: deployment, exchange, stages, splits, accumulators."""
