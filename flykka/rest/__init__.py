"""The HTTP interface of a cluster, in the shape of Flink's REST API, and the page. Needs the extra `web`.

Not here: answers that actors do not have; requests of a client (`client`).
"""
