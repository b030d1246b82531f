"""Words that several adapters share."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.messages.graph.job_graph import ResourceSpec


def profile(words: Sequence[float] | None) -> ResourceSpec:
    """Return the resources for `[cores, MiB]`, or for None if unspecified."""
    if words is None:
        return ResourceSpec()
    cores, heap_mib = words
    return ResourceSpec(cpu_millis=round(cores * 1_000), heap_mib=round(heap_mib))
