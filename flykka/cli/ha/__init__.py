"""`flykka ha`: shows and deletes what jobs have left in a high-availability store.

Not here: the stores (`cluster/high_availability`).
"""
