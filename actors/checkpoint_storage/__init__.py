"""Checkpoints on disk: their files, and the pointers to them.

Not here: retention (`machines/checkpoint`), and rows, which the data plane writes.
"""
