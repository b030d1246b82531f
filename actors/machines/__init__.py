"""Pure machines: each takes events and returns effects as values.

Not here: clocks, threads, chance, loggers, actors and Spark; a machine imports `messages` alone.
"""
