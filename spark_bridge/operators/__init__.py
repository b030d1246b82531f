"""Operators: one port, and an implementation of it for each kind of operator.

Not here: order and time of their calls (`actors/machines/attempt`), and code that runs in Python workers (`worker`).
"""
