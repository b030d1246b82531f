"""Futures: results that come later, replies to asks, outcomes of blocking work.

Not here: the asks themselves (`runtime/ref`).
"""
