"""Slots: offered, requested, shared and allocated.

Not here: what runs in a slot (`graph`, `attempt`).
"""
