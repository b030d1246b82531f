"""Recorded jobs, replayed: what stands for the data plane, the storage and user code where there are none.

Not here: the replay of any actors (`runtime/replay`).
"""
