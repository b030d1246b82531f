"""Connectors, compared with a bare client and with the parquet sink."""
