"""The local cluster, its launch and its end.

Not here: the actors of the cluster (`actors/cluster`), and its HTTP interface (`rest`).
"""
