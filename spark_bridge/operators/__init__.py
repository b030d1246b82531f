"""Operators: one interface, and an implementation for each kind of operator.

The order and time of their calls are decided in `actors/machines/attempt`; code that runs in Python workers is in
`worker`.
"""
