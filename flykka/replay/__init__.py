"""Recorded jobs, replayed: what stands for the data plane, the storage and the user's code where there are none."""
