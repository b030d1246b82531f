"""The HTTP interface of a cluster, in the format of Flink's REST API, and the web page. Needs the extra `web`.

All answers come from actors. Requests of a client are in `client`.
"""
