"""The machine of a Task: the life of one execution attempt, its stages, reader and snapshots.

Not here: flow control between tasks (`exchange`); the work itself, which the engine does.
"""
