"""Access to state outside a job: reads the state in savepoints and checkpoints as DataFrames, and writes savepoints.

Not here: the state of a running job, which `JobClient.query_state` reads.
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
    """Compare every file of the savepoint or completed checkpoint at `path` with its digest, without Spark.

    The `damages` of the result name each file that is missing, damaged, truncated or unexpected. They are empty if all
    files are undamaged. Files staged by sinks are included, unless they have been published since.

    Raises:
        CheckpointNotFoundError: there is no checkpoint at this path. The error describes its contents.
        CheckpointError: the metadata cannot be read.
    """
    from flykka.client.checkpoints import read_checkpoint, verify_checkpoint

    return verify_checkpoint(read_checkpoint(fspath(path)))


def read(path: str | PathLike[str], uid: str) -> SavedState:
    """Return the keyed state of the operator `uid` in the savepoint or completed checkpoint at `path`.

    `table()` of the result has one row per key and one column per state, `timers()` returns the timers of a function,
    and `windows()` the state of windows that have not ended. Each is a DataFrame of the active Spark session, or of a
    new one.

    Raises:
        CheckpointNotFoundError: there is no checkpoint at this path. The error describes its contents.
        CheckpointError: the checkpoint cannot be read, or its state is missing or damaged.
        SavedStateError: there is no operator with this uid and keyed state. The error names those that exist.
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
    """Write a savepoint at `path` from which the program of an environment can start. Returns its path.

    `path` must not exist. `states` are the state rows of operators by uid, in the format of `read(...).table()`, or
    `read(...).panes()` for windows. A state without a column is null. `timers` are those of functions, in the format of
    `timers()`; operators without an entry keep their timers in `existing`. All other operators, including sources and
    sinks, get their state from the savepoint `existing`, which does not change. Without `existing` they have no state,
    and sources start at the beginning of their input. The program must be defined in the environment, and may be
    executed afterwards.

    Raises:
        SavedStateError: the program has no such operator with keyed state; or the rows have wrong columns or types, a
            duplicate key, or a timer without a time.
        SavepointError: `path` exists or cannot be written, or `existing` is not a savepoint.
        CheckpointError: `existing` cannot be read.
        ProgramError: the environment has no operators, or they cannot be connected as defined.
    """
    from flykka.client.directories import absolute_directory
    from flykka.spark_bridge.errors import SavedStateError
    from flykka.state.savepoint_writer import SavepointWriter, StateRows

    timer_rows = timers or {}
    if unknown := sorted(set(timer_rows) - set(states)):
        raise SavedStateError(f"timers of {unknown[0]!r} are passed without states: both are written together")
    rows = {uid: StateRows(rows=each, timers=timer_rows.get(uid)) for uid, each in states.items()}
    codes = {operator.uid: operator.code for operator in environment.program.transformations}
    writer = SavepointWriter(environment.get_job_graph(), codes)
    return writer.write(absolute_directory(path), rows, None if existing is None else fspath(existing))
