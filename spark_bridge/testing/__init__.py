"""Tests that are part of the product: those that connectors of others pass.

Not here: tests of flykka itself (`tests`).
"""
