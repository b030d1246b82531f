"""Keyed state as Spark's Python workers see it: files of sorted rows, batches by key, and what is made of them."""
