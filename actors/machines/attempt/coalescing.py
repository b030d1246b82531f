"""Coalescing of batches: those that wait for a task and are little together go through one stage."""

from __future__ import annotations

from collections.abc import Callable

from flykka.actors.machines.attempt.input_elements import BatchArrived, InputElement, WatermarkAdvanced

COALESCED_BYTES = 16 * 1024**2
"""Batches that wait become one as long as they are smaller than this together: so little is read in one Spark job."""
COALESCED_BATCHES = 32
"""So many at most: Spark plans their union."""


def batches_behind(
    first: BatchArrived, read: Callable[[], InputElement | None], *, ignores_watermarks: bool
) -> tuple[tuple[BatchArrived, ...], tuple[InputElement, ...]]:
    """Read on behind a batch; the batches that go with it, and what was read too far and stays next, in its order.

    A watermark between them ends a stage, for rows behind it may be late where others go by it, unless the task
    `ignores_watermarks`: then the last one stays next.
    """
    batches: list[BatchArrived] = []
    watermark: tuple[InputElement, ...] = ()
    size_bytes = first.batch.size_bytes
    while size_bytes < COALESCED_BYTES and len(batches) < COALESCED_BATCHES - 1:
        match read():
            case BatchArrived(batch=batch) as arrived:
                size_bytes += batch.size_bytes
                batches.append(arrived)
            case WatermarkAdvanced() as advanced if ignores_watermarks:
                watermark = (advanced,)
            case None:
                break
            case element:
                return tuple(batches), (*watermark, element)
    return tuple(batches), watermark
