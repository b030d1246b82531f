"""Bounds the next batch of a source's reader: the number of waiting splits that it takes.

As Spark's ReadLimit, but measured while it runs, as Flink's BufferDebloater sizes buffers: a batch takes what waits, up
to a limit that keeps its stage near a second, so that a barrier behind it waits no longer. Splits are weighed by their
cost: their bytes, or `ROW_BYTES` for each row that they are known to have where that is more, and `OPEN_BYTES` for
each, since a file is opened however small it is. A split that gives no size is a batch by itself, as is one that costs
more than the limit.

The rule. The limit starts at `LIMIT_START`. A batch that was at least half full and took less than `TARGET_MS` raises
the limit to what that stage would have read in this time, at most `GROWTH` times what it was. A batch, full or not,
that took more than `PATIENCE` times as long lowers the limit in the same way, at most to a half. Two things bound this.
The first `COLD_STAGES` of an attempt, in which Spark compiles what it runs, lower nothing. And what every stage costs,
however little it reads, is not saved by reading less: where the stages that cost at most `SMALL` take more than half of
the target, the target is twice that. They take longer when the machine is busy, so the shortest is forgotten by and by:
a longer one raises what it is taken for by a part, one in `FORGETTING`, of the difference.
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
    """The weight of a split in a batch; None where it is a batch by itself."""
    size_bytes = size_of(split)
    return None if size_bytes is None else max(size_bytes, ROW_BYTES * split.rows) + OPEN_BYTES


class ReadLimit:
    """The limit of one reader's batches: `bytes` of what splits cost."""

    __slots__ = ("_overhead_ms", "_stages", "bytes")

    def __init__(self) -> None:
        self.bytes = LIMIT_START
        self._stages = 0
        self._overhead_ms: int | None = None

    def cost(self, split: SourceSplit) -> int:
        """The weight of a split in a batch; a split without a size fills it."""
        cost = cost_of(split)
        return self.bytes if cost is None else cost

    def next_batch(self, splits: Iterable[SourceSplit]) -> int:
        """The number of these splits, from the first on, that are the next batch; at least one, where there is one."""
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
        """A stage has finished that read splits of this cost, and took so long."""
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
