"""The serving process: its threads, memory and log.

Not here: jobs, and queries to actors.
"""
