"""Operators: one interface, and an implementation for each kind of operator.

Not here: the order of their calls (`actors/machines/attempt`), and code that runs in Python workers (`worker`).
"""
