"""The columns in which keyed state lies in files, by the names that users know: those of a `StateSchema`.

The values of functions lie under the names of their states, and so do the columns of rows that are kept. Partial
aggregates lie in parts, numbered in the order of the schema, and behind them the number of their rows.
"""

from __future__ import annotations

from flykka.actors.machines.state.schema_evolution import columns_of
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.worker.keys import KEY_PREFIX

PART_PREFIX = "__part_"
"""The names of the columns of parts: this, and the place of the part."""

ROWS = "__rows"
"""The number of input rows behind a row of state."""


def stored_keys(schema: StateSchema) -> dict[str, str]:
    return {name: f"{KEY_PREFIX}{place}" for place, name in enumerate(columns_of(schema.keys))}


def stored_values(schema: StateSchema) -> dict[str, str]:
    names = list(columns_of(schema.columns))
    if not schema.merged_by:
        return {name: name for name in names}
    *parts, rows = names
    return {**{name: f"{PART_PREFIX}{place}" for place, name in enumerate(parts)}, rows: ROWS}


def moved_values(was: StateSchema, now: StateSchema) -> dict[str, str | None]:
    """Map the columns of today to those in files of another schema; None where these have no such value."""
    before = stored_values(was)
    return {column: before.get(name) for name, column in stored_values(now).items()}
