"""Messages of Tasks: deployment, exchange, batches, splits, accumulators, operator events.

Not here: commands to their engines (`attempt`).
"""
