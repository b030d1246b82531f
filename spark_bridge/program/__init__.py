"""A program as the user writes it: prototypes, checks, user functions, and the interfaces of sources and sinks.

Not here: operators that run (`operators`), and the stream API (`flykka/api/streams`).
"""
