"""Delta tables as a source and as a sink, through delta-rs: Spark needs no jar for them."""
