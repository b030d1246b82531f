"""Delta tables as a source and as a sink, through delta-rs, which only this folder imports: Spark needs no jar."""
