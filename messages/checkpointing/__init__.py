"""Messages of checkpoints, and the values that a completed one consists of.

Not here: handles of state (`state`).
"""
