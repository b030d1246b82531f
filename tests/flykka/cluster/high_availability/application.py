"""An application in a separate process, which runs jobs on command, without Spark.

`python -m tests.flykka.cluster.high_availability.application FOLDER`, then on its standard input `run NAME`, `close` or
`abandon`.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from flykka.api.launch import Launch, launched
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.high_availability.stores import FolderSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import FlykkaError
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import Names


class PrintingLaunch(Launch):
    """Prints messages for users on standard output, where the test reads them."""

    def say(self, text: str) -> None:
        print(text, flush=True)


def two_vertex_job(folder: str, name: str) -> JobGraph:
    graph = graph_of(vertex("source", outputs=1), vertex("sink", reads=("source",)))
    checkpointing = CheckpointingSettings(directory=f"{folder}/checkpoints", interval_ms=200)
    return replace(graph, name=name, checkpointing=checkpointing)


def main(folder: str) -> None:
    settings = ClusterSettings(slots_per_task_manager=1, high_availability=FolderSettings(directory=f"{folder}/store"))
    cluster = LocalCluster(Names(), settings)
    print("began", flush=True)
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        if command != "run":
            cluster.shutdown(concludes=command == "close")
            print("ended", flush=True)
            return
        try:
            known = cluster.identify(two_vertex_job(folder, name), notify=print)
            result = cluster.submit(known.job_graph, known.restore_path).wait()
            print(f"{name} {'had finished before' if result.is_earlier else 'has finished'}", flush=True)
        except FlykkaError as refused:
            print(f"{name} was refused: {refused}", flush=True)


if __name__ == "__main__":
    with launched(PrintingLaunch()):
        main(*sys.argv[1:])
