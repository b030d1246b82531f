"""Time: clocks, keyed timers of actors, delays that grow."""
