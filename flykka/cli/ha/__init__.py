"""`flykka ha`: shows and deletes the jobs in a high-availability store.

Not here: the stores (`cluster/high_availability`).
"""
