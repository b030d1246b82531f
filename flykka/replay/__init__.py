"""Replays recorded jobs, with replacements for the data plane, the storage and user code.

Not here: the replay of arbitrary actors (`runtime/replay`).
"""
