"""The process that serves: its threads, its memory, its log.

Not here: jobs; no actor is asked.
"""
