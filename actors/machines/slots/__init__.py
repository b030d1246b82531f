"""Slots: how they are offered, requested, shared and allocated.

Not here: the tasks that run in a slot (`graph`, `attempt`).
"""
