"""Dispatchers: which thread takes an actor's turns, and blocking work beside them.

Not here: what happens in a turn (`cell`).
"""
