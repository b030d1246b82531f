"""Dispatchers: the threads for actors' turns and for blocking work.

Not here: what happens in a turn (`cell`).
"""
