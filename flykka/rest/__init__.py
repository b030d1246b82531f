"""The HTTP interface of a cluster, in the shape of Flink's REST API, and the page. Needs the extra `web`."""
