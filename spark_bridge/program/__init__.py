"""A program as the user writes it: prototypes, trials, user functions, and the interfaces of sources and sinks.

What runs is in `operators`, the stream API in `flykka/api/streams`.
"""
