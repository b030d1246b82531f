"""Rescaling of a running job: the bounds of its vertices, and the parallelism that fits into the slots.

Not here: the state of the new subtasks (`state`).
"""
