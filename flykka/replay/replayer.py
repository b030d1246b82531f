"""The Replayer of jobs: the kernel's, and what the actors of a cluster were given that no trace has a copy of."""

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
"""Senders that are not there any more; by their tags, for a replay needs none of their modules."""

_HA_SERVICES = ("high_availability.embedded", "high_availability.file_system", "high_availability.zookeeper")
_STORAGES = ("checkpoint_storage.owned", "checkpoint_storage.plain")
_OWN_ACTORS = "actor."
"""Tags of flykka's actors, and of what makes them, begin so."""
_FIRST_RECORDS = 10_000
"""Among these is the spawning of a cluster's first actors."""


class Replayer(TraceReplayer):
    """Replays traces of jobs where there is no Spark, no Java, no file and no user code.

    The data plane of a recorded cluster, of whatever class it was, is replaced by one with nothing behind it: what it
    said is in the trace. The clients' actors are the boundary, which is not replayed.

    Args:
        actors: Props by path, for actors that a trace does not tell enough about.
        stand_ins: live objects by the name of the class, in a trace, of what could not be written to it.
        modules: the names of modules, besides flykka's own, that declare actors and messages of the traces.
    """

    outside = MappingProxyType(_OUTSIDE)

    def stand_ins(self, trace: TraceReader) -> dict[str, object]:
        """Stand-ins for the live objects that the actors of a job were given."""
        return _stand_ins(trace, RecordedDataPlane())

    def session(self, trace: TraceReader | str | os.PathLike[str]) -> JobSession:
        """A replay that one walks through, at the beginning of the trace. Raises `TraceError` as `replay` does."""
        opened = trace if isinstance(trace, TraceReader) else TraceReader.open(trace)

        return JobSession(
            lambda: self.engine(opened), lambda: self._engine(opened, _stand_ins(opened, ForkDataPlane(opened)))
        )


def _stand_ins(trace: TraceReader, data_plane: RecordedDataPlane) -> dict[str, object]:
    # What a store has said is in the trace as well: one with nothing in it stands for each, and for what is made of it.
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
    """The classes of what clusters were given for a data plane."""
    spawned = (record.props for record in islice(trace.records(), _FIRST_RECORDS) if isinstance(record, Spawned))
    there = (snapshot.props for snapshot in trace.snapshots())
    return {
        name
        for props in (*spawned, *there)
        if props is not None
        for name in classes_of(props, "data_plane", _OWN_ACTORS)
    }
