"""The HTTP interface of a cluster, in the format of Flink's REST API, and the web page. Needs the extra `web`.

Replies of actors come from `actors`, requests of a client from `client`.
"""
