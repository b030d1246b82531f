"""Scheduling strategies: which tasks begin when, and which results are released.

Not here: the slots for these tasks (`slots`).
"""
