"""The columns of keyed state in files, with the names of a `StateSchema`, which users know.

Function state has the names of the states, and rows in state have the names of their columns. Partial aggregates are
stored as parts, numbered in the order of the schema, followed by the count of their rows.
"""

from __future__ import annotations

from flykka.actors.machines.state.schema_evolution import columns_of
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.worker.keys import KEY_PREFIX

PART_PREFIX = "__part_"
"""The prefix of the columns of parts; the index of the part follows."""

ROWS = "__rows"
"""The column with the number of input rows in a row of state."""


def stored_keys(schema: StateSchema) -> dict[str, str]:
    return {name: f"{KEY_PREFIX}{place}" for place, name in enumerate(columns_of(schema.keys))}


def stored_values(schema: StateSchema) -> dict[str, str]:
    names = list(columns_of(schema.columns))
    if not schema.merged_by:
        return {name: name for name in names}
    *parts, rows = names
    return {**{name: f"{PART_PREFIX}{place}" for place, name in enumerate(parts)}, rows: ROWS}


def evolved_columns(was: StateSchema, now: StateSchema) -> dict[str, str | None]:
    """Map the columns of schema `now` to columns in files of schema `was`; None for a value that the files lack."""
    before = stored_values(was)
    return {column: before.get(name) for name, column in stored_values(now).items()}
