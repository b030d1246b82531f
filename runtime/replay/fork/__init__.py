"""A replayed system that continues by itself, optionally with a fault.

Not here: replays without forks.
"""
