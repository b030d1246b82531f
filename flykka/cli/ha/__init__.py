"""`flykka ha`: shows and deletes the jobs in a high-availability store.

The stores are in `cluster/high_availability`.
"""
