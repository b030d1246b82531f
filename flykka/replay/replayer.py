"""The Replayer of jobs: the kernel's replayer with replacements for live objects that traces do not contain."""

from __future__ import annotations

import os
from itertools import islice
from types import MappingProxyType

from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.replay.data_planes import ForkDataPlane, Recorded, RecordedDataPlane
from flykka.replay.job_fork import JobSession
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Spawned
from flykka.runtime.trace.state.graph_text import classes_of

SPARK_DATA_PLANE = "data_plane.spark"

_CLIENT = "it is the client, which is outside the cluster"
_OUTSIDE = dict.fromkeys(("actor.job_client", "actor.job_listener", "actor.simulation_client"), _CLIENT)
"""Trace tags of senders that do not exist in a replay, so that a replay need not load their modules."""

_HA_SERVICES = ("high_availability.embedded", "high_availability.file_system", "high_availability.zookeeper")
_STORAGES = ("checkpoint_storage.owned", "checkpoint_storage.plain")
_OWN_ACTORS = "actor."
"""The prefix of the trace tags of flykka's actors, and of the functions that create them."""
_FIRST_RECORDS = 10_000
"""The number of records within which the first actors of a cluster are spawned."""


class Replayer(TraceReplayer):
    """Replays traces of jobs without Spark, Java, files and user code.

    The data plane of a recorded cluster is replaced by an empty one, because its replies are in the trace. The clients'
    actors are not replayed.

    Args:
        actors: Props by path, for actors that a trace does not describe sufficiently.
        stand_ins: live objects by class name, for those that could not be written to the trace.
        modules: the names of modules, besides flykka's own, that declare actors and messages in the traces.
    """

    outside = MappingProxyType(_OUTSIDE)

    def stand_ins(self, trace: TraceReader) -> dict[str, object]:
        """Return replacements for the live objects that the actors of a job were created with."""
        return _stand_ins(trace, RecordedDataPlane())

    def session(self, trace: TraceReader | str | os.PathLike[str]) -> JobSession:
        """Open a session at the beginning of the trace, for stepping. Raises `TraceError` as `replay` does."""
        opened = trace if isinstance(trace, TraceReader) else TraceReader.open(trace)

        return JobSession(
            lambda: self.engine(opened), lambda: self._engine(opened, _stand_ins(opened, ForkDataPlane(opened)))
        )


def _stand_ins(trace: TraceReader, data_plane: RecordedDataPlane) -> dict[str, object]:
    # The trace also contains the replies of high-availability stores, so an empty store replaces them.
    services = EmbeddedHaServices()
    store = services.store(LeaderSessionId("recorded"))
    return {
        **dict.fromkeys(_HA_SERVICES, services),
        **dict.fromkeys(_STORAGES, Recorded()),
        "high_availability.leader_store": store,
        "checkpoint_storage.pointers": store.checkpoints(JobId("recorded")),
        **dict.fromkeys((SPARK_DATA_PLANE, *_data_planes(trace)), data_plane),
    }


def _data_planes(trace: TraceReader) -> set[str]:
    spawned = (record.props for record in islice(trace.records(), _FIRST_RECORDS) if isinstance(record, Spawned))
    there = (snapshot.props for snapshot in trace.snapshots())
    return {
        name
        for props in (*spawned, *there)
        if props is not None
        for name in classes_of(props, "data_plane", _OWN_ACTORS)
    }
