"""The state machine of a Task: one execution attempt with its stages, source reader and snapshots.

Not here: flow control between tasks (`exchange`), and the processing of rows, which the engine does.
"""
