"""A program as it is written: prototypes, trials, user functions, ports of sources and sinks.

Not here: what runs (`operators`), and the verbs (`flykka/api/streams`).
"""
