"""The serving process: its threads, memory and log.

Nothing here depends on jobs or queries actors.
"""
