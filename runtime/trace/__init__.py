"""Traces: the records of turns, their recorders, the file and its reader.

Not here: replays (`replay`), and the meaning of messages (`flykka/traces`).
"""
