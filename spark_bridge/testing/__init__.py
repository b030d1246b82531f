"""Tests that are part of the product: for connectors of third parties.

Not here: tests of flykka itself (`tests`).
"""
