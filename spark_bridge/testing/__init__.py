"""Tests that are part of the product: for connectors of third parties.

Tests of flykka itself are in `tests`.
"""
