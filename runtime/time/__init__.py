"""Time: clocks, keyed timers of actors, growing delays.

Not here: times of rows and windows, which are data.
"""
