"""The serving process: its threads, its memory, its log.

No actor is asked, and jobs are elsewhere.
"""
