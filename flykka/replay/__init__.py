"""Replays recorded jobs, with replacements for the data plane, the storage and user code.

The replay of arbitrary actors is in `runtime/replay`.
"""
