"""The serving process: its threads, its memory, its log.

Not here: jobs, and questions to actors.
"""
