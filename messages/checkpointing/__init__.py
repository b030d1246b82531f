"""Messages of checkpoints, and the values that a completed checkpoint consists of.

Not here: state handles (`state`).
"""
