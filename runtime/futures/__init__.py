"""Futures: results that arrive later, such as replies to asks and outcomes of blocking work.

Not here: the asks themselves (`runtime/ref`).
"""
