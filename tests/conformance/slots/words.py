"""What several of the adapters say alike."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.messages.graph.job_graph import ResourceSpec


def profile(words: Sequence[float] | None) -> ResourceSpec:
    """`[cores, MiB]`, or None where nothing is said."""
    if words is None:
        return ResourceSpec()
    cores, heap_mib = words
    return ResourceSpec(cpu_millis=round(cores * 1_000), heap_mib=round(heap_mib))
