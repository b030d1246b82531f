"""Inspection: snapshots of a running system, their picture, and the watchdog of slow turns."""
