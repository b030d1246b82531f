"""Traces: what is written of a turn, its recorders, the file and its reader.

Not here: taking turns again (`replay`), and the meaning of messages (`flykka/traces`).
"""
