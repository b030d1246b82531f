"""`flykka ha`: the values that jobs have left in a store of high availability.

Not here: the stores (`cluster/high_availability`).
"""
