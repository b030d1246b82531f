"""State from outside: that of a savepoint or a checkpoint as DataFrames, and savepoints made from DataFrames."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.spark_bridge.saved_state.reading import SavedState

__all__ = ["read"]


def read(path: str | PathLike[str], uid: str) -> SavedState:
    """The keyed state of the operator `uid` in the savepoint or the completed checkpoint at `path`.

    Its `table()` has a row for each key with a column for each state, `timers()` those of a function, `windows()` what
    is kept of windows that have not fired; each is a DataFrame of the active Spark session, or of a new one.

    Raises:
        CheckpointNotFoundError: there is none at this path; the text says what is there.
        CheckpointError: it cannot be read, or state that it refers to is missing.
        SavedStateError: it has no operator of this uid, or one without keyed state; the text names those there.
    """
    from flykka.client.saved_state import read_state

    return read_state(path, uid)
