"""Handles of state, and the state that operators keep beside their batches.

Not here: the state itself, which is in files.
"""
