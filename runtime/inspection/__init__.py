"""Inspection: snapshots of a running system, their picture, and the watchdog of slow turns.

Not here: questions to actors: everything is read from outside.
"""
