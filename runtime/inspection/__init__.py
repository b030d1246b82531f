"""Inspection: snapshots of a running system, their picture, and the watchdog of slow turns.

Not here: queries that actors answer; everything is read from outside.
"""
