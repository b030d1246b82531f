"""Tests for third-party connectors, which are part of the product.

Not here: tests of flykka itself (`tests`).
"""
