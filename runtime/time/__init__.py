"""Time: clocks, keyed timers of actors, delays that grow.

Not here: times of rows and windows, which are data.
"""
