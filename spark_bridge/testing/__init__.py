"""Tests that are part of the product: those that connectors of others pass."""
