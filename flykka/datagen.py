"""Predefined fields for `DataGenSource`. Each computes a column from the row number, the seed and the column's name."""

from __future__ import annotations

from flykka.spark_bridge.connectors.datagen import (
    Field,
    FieldGenerator,
    choice,
    random_double,
    random_int,
    sequence,
    timestamps,
)

__all__ = ["Field", "FieldGenerator", "choice", "random_double", "random_int", "sequence", "timestamps"]
