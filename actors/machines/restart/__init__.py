"""Failures and restarts: which tasks restart, when, and which failures repeat themselves.

Not here: cancelling and deploying these tasks (`graph`).
"""
