"""Inspection: snapshots of a running system, their rendering, and the watchdog of slow turns.

Not here: queries that actors answer. Everything is read from outside the actors.
"""
