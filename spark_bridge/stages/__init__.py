"""Stages: what a vertex does to a batch, as functions from DataFrames to DataFrames."""
