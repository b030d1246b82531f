"""The HTTP interface of a cluster, in the format of Flink's REST API, and the web page. Needs the extra `web`.

Not here: replies of actors (`actors`), and requests of a client (`client`).
"""
