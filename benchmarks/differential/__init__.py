"""Random programs on random tables: each result of a stream is compared with a Spark batch."""
