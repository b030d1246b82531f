"""Pure state machines: each takes events and returns effects as values.

Not here: clocks, threads, random numbers, loggers, actors and Spark; a machine imports only `messages`.
"""
