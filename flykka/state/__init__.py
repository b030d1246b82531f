"""State from outside: that of a savepoint or a checkpoint as DataFrames, and savepoints made from DataFrames.

Not here: state of a running job.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.client.checkpoints import VerifiedCheckpoint
    from flykka.spark_bridge.program.prototype import DataFrame
    from flykka.spark_bridge.saved_state.reading import SavedState

__all__ = ["read", "verify", "write"]


def verify(path: str | PathLike[str]) -> VerifiedCheckpoint:
    """Compare every file of the savepoint or the completed checkpoint at `path` with what was written, without Spark.

    The `damages` of the result name each file that is missing, damaged, cut off or was not there; none: it is whole.
    Files that sinks have staged are among them, unless they were published since.

    Raises:
        CheckpointNotFoundError: there is none at this path; the text says what is there.
        CheckpointError: its metadata cannot be read.
    """
    from flykka.client.checkpoints import read_checkpoint, verify_checkpoint

    return verify_checkpoint(read_checkpoint(fspath(path)))


def read(path: str | PathLike[str], uid: str) -> SavedState:
    """The keyed state of the operator `uid` in the savepoint or the completed checkpoint at `path`.

    Its `table()` has a row for each key with a column for each state, `timers()` those of a function, `windows()` what
    is kept of windows that are not over; each is a DataFrame of the active Spark session, or of a new one.

    Raises:
        CheckpointNotFoundError: there is none at this path; the text says what is there.
        CheckpointError: it cannot be read, or state that it refers to is missing or damaged.
        SavedStateError: it has no operator of this uid, or one without keyed state; the text names those there.
    """
    from flykka.client.saved_state import read_state

    return read_state(path, uid)


def write(
    path: str | PathLike[str],
    environment: StreamExecutionEnvironment,
    states: Mapping[str, DataFrame],
    *,
    timers: Mapping[str, DataFrame] | None = None,
    existing: str | PathLike[str] | None = None,
) -> str:
    """Write a savepoint at `path`, which is not there yet, from which the program of an environment can start.

    `states` are the rows of operators by their uids, as `read(...)` gives them: those of `table()`, of windows those of
    `panes()`; a state without a column is null. `timers` are those of functions, as `timers()` gives them; where they
    are not given, those of `existing` stay. Of all other operators, sources and sinks among them, the state comes from
    the savepoint `existing`, which stays as it is; without one they have none, and sources begin with their input. The
    program is written down in the environment, and may be executed afterwards. Returns the address, for
    `from_savepoint`.

    Raises:
        SavedStateError: the program has no such operator, or one without keyed state; or the rows do not have its
            columns or types, have a key twice, or a timer without a time.
        SavepointError: there is something at `path`, it cannot be written, or `existing` is no savepoint.
        CheckpointError: `existing` cannot be read.
        ProgramError: nothing is written down in the environment, or it cannot be connected as written.
    """
    from flykka.client.directories import absolute_directory
    from flykka.spark_bridge.errors import SavedStateError
    from flykka.state.savepoint_writer import SavepointWriter, StateRows

    given = timers or {}
    if unknown := sorted(set(given) - set(states)):
        raise SavedStateError(f"timers are given of {unknown[0]!r}, and no states: the two are written together")
    rows = {uid: StateRows(rows=each, timers=given.get(uid)) for uid, each in states.items()}
    codes = {made.uid: made.code for made in environment.program.transformations}
    writer = SavepointWriter(environment.get_job_graph(), codes)
    return writer.write(absolute_directory(path), rows, None if existing is None else fspath(existing))
