"""The ClusterEntrypoint, and the start of the parts of a cluster.

Not here: the processes and sessions around it (`flykka/cluster`).
"""
