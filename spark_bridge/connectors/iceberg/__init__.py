"""Iceberg tables as a sink, through pyiceberg: Spark needs no jar for them."""
