"""A replayed system that continues by itself, perhaps with a fault.

Not here: replays that only repeat.
"""
