"""The ClusterEntrypoint, which starts the components of a cluster.

Not here: the processes and sessions around it (`flykka/cluster`).
"""
