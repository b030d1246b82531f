"""Bounds the next batch of a source's reader: the number of waiting splits that it takes.

Like Spark's ReadLimit, but measured at run time, as Flink's BufferDebloater sizes buffers: a batch takes the waiting
splits up to a limit that keeps its stage near a second, so that a barrier behind it waits no longer. A split costs its
bytes, or `ROW_BYTES` for each known row if that is more, and `OPEN_BYTES` because each file is opened. A split without
a size is a batch by itself, as is one that costs more than the limit.

The limit starts at `LIMIT_START`. A batch that was at least half full and took less than `TARGET_MS` raises it to the
cost that its stage would have read in this time, at most `GROWTH` times the old limit. A batch, full or not, that took
more than `PATIENCE` times as long lowers it in the same way, at most to a half. Two rules bound this. The first
`COLD_STAGES` of an attempt, in which Spark compiles the code, lower nothing. And the fixed costs of a stage are not
saved by reading less: if stages that cost at most `SMALL` take more than half of the target, the target is twice that.
They take longer while the machine is busy, so the shortest time is forgotten slowly: a longer one raises it by one part
in `FORGETTING` of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.tasks.source import SourceSplit, size_of

TARGET_MS = 1_000
PATIENCE = 1.5
GROWTH = 4
COLD_STAGES = 3
FORGETTING = 4
OPEN_BYTES = 256 * 1024
ROW_BYTES = 64
SMALL = 2 * 1024**2
LIMIT_MIN = 1 * 1024**2
LIMIT_START = 16 * 1024**2
LIMIT_MAX = 128 * 1024**2


def cost_of(split: SourceSplit) -> int | None:
    """The cost of a split; None if it is a batch by itself."""
    size_bytes = size_of(split)
    return None if size_bytes is None else max(size_bytes, ROW_BYTES * split.rows) + OPEN_BYTES


class ReadLimit:
    """The limit of one reader's batches: `bytes` of cost."""

    __slots__ = ("_overhead_ms", "_stages", "bytes")

    def __init__(self) -> None:
        self.bytes = LIMIT_START
        self._stages = 0
        self._overhead_ms: int | None = None

    def cost(self, split: SourceSplit) -> int:
        """The cost of a split in a batch; a split without a size fills it."""
        cost = cost_of(split)
        return self.bytes if cost is None else cost

    def next_batch(self, splits: Iterable[SourceSplit]) -> int:
        """The number of the first splits that are the next batch; at least one if there are any."""
        count = total = 0
        for split in splits:
            total += self.cost(split)
            is_alone = size_of(split) is None
            if count and (is_alone or total > self.bytes):
                break
            count += 1
            if is_alone:
                break
        return count

    def learn(self, cost: int, duration_ms: int) -> None:
        """Adapt the limit to a stage that has read splits of this cost."""
        is_cold = self._stages < COLD_STAGES
        self._stages += 1
        if cost <= SMALL and not is_cold:
            known_ms = duration_ms if self._overhead_ms is None else self._overhead_ms
            self._overhead_ms = min(duration_ms, known_ms + (duration_ms - known_ms) // FORGETTING)
        target_ms = max(TARGET_MS, 2 * (self._overhead_ms or 0))
        in_target = cost * target_ms // max(duration_ms, 1)
        if 2 * cost >= self.bytes and duration_ms < target_ms:
            self.bytes = min(max(in_target, self.bytes), GROWTH * self.bytes, LIMIT_MAX)
        elif duration_ms > PATIENCE * target_ms and not is_cold:
            self.bytes = max(min(in_target, self.bytes), self.bytes // 2, LIMIT_MIN)

    def check(self) -> None:
        """Assert the invariant."""
        assert LIMIT_MIN <= self.bytes <= LIMIT_MAX, f"a batch is limited to {self.bytes} bytes"
