"""Times connectors, compared with a bare client and with the parquet sink."""
