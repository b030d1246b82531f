"""A source of rows that are made of their number.

Not here: ready fields for programs (`flykka/datagen.py`).
"""
