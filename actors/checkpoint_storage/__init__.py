"""Checkpoints at rest: their files, and the pointers to them.

Not here: which of them are kept (`machines/checkpoint`), and rows, which the data plane writes.
"""
