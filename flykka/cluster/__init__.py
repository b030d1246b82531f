"""The local cluster, its start and its shutdown.

Not here: the actors of the cluster (`actors/cluster`), and its REST interface (`rest`).
"""
