"""`flykka ha`: shows and deletes what jobs have left in a high-availability store.

The stores are in `cluster/high_availability`.
"""
