"""Queries of the keyed state of a running job (Flink's queryable state, answered from checkpoints)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flykka.client.saved_state import read_state
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.spark_bridge.errors import SavedStateError

if TYPE_CHECKING:
    from flykka.messages.monitoring.job_details import JobDetails

_ATTEMPTS = 5
"""A checkpoint may be subsumed, and its files deleted, while it is read: so many are tried."""


class StateQueries(ABC):
    """A job whose checkpoints are known."""

    @property
    @abstractmethod
    def job_name(self) -> str:
        """The name of the job."""

    @property
    @abstractmethod
    def details(self) -> JobDetails:
        """The job as it stands now."""

    def query_state(self, uid: str, name: str, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of the state `name` of an operator for some keys, by key; a key that has none is left out.

        The answer is that of the last completed checkpoint, whose files are read by a Spark job: no task is asked, and
        nothing newer is seen. Keys are values, or tuples of them where the stream is keyed by several columns. Names
        are those of `flykka.state.read(...)`: of a function its states', of aggregates such as `sum(amount)`.

        Raises:
            SavedStateError: the job has completed no checkpoint yet, or none is there long enough to be read; it has no
                such operator or state, or keys of another type.
        """
        asked = list(keys)
        path = self._last_completed()
        for _ in range(_ATTEMPTS):
            try:
                return _answered(path, uid, name, asked)
            except SavedStateError:
                raise
            except Exception:  # whatever reading raises where files are deleted
                newer = self._last_completed()
                if newer == path:
                    raise
                path = newer
        raise SavedStateError(
            f"the checkpoints of job {self.job_name!r} are gone before they can be read: keep more of them with"
            " enable_checkpointing(..., retained=10)"
        )

    def _last_completed(self) -> str:
        completed = (
            each.path
            for each in reversed(self.details.checkpoints)
            if each.status is CheckpointStatsStatus.COMPLETED and not each.is_savepoint and each.path is not None
        )
        path = next(completed, None)
        if path is None:
            raise SavedStateError(
                f"job {self.job_name!r} has completed no checkpoint yet: there is no state to ask for"
            )
        return path


def _answered(path: str, uid: str, name: str, keys: list[Any]) -> dict[Any, Any]:
    state = read_state(path, uid)
    if len(state.key_names) > 1:
        return dict(state.lookup(name, keys))
    found = state.lookup(name, [(key,) for key in keys])
    return {key: value for (key,), value in found.items()}
