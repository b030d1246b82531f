"""Ready fields for a `DataGenSource`: each says how a column is made of a row's number, the seed and its own name."""

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
