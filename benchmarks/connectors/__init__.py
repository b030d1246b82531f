"""Connectors, beside a bare client and beside the parquet sink."""
