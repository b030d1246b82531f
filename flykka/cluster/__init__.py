"""The local cluster, its start and its shutdown.

The actors of the cluster are in `actors/cluster`, its REST interface in `rest`.
"""
