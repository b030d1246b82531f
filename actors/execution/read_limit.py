"""How many of the splits that wait go into the next batch of a source's reader.

As Spark's ReadLimit, but measured while it runs, as Flink's BufferDebloater sizes buffers: a batch takes what waits, up
to a limit that keeps its stage near a second, so that a barrier behind it waits no longer. Splits are weighed by their
cost: their bytes, or `ROW_BYTES` for each row that they are known to have where that is more, and `OPEN_BYTES` for
each, since a file is opened however small it is. A split that gives no size is a batch by itself, as is one that costs
more than the limit.

The rule. The limit starts at `LIMIT_START`. When a stage has finished the limit becomes what that stage would have read
in `TARGET_MS`, but at most `GROWTH` times and at least half of what it was, within `LIMIT_MIN` and `LIMIT_MAX`. Where
even the shortest stage took longer than half of that, the target is twice the shortest: what every stage costs, however
little it reads, is not saved by reading less. Some stages do not count: a batch less than half full says nothing of a
larger one, nor of a smaller one unless it took longer than the target; and the first `COLD_STAGES` of an attempt, in
which Spark compiles what it runs, do not lower the limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.source import SourceSplit

TARGET_MS = 1_000
GROWTH = 4
COLD_STAGES = 2
OPEN_BYTES = 256 * 1024
ROW_BYTES = 32
LIMIT_MIN = 1 * 1024**2
LIMIT_START = 16 * 1024**2
LIMIT_MAX = 256 * 1024**2


class ReadLimit:
    """The limit of one reader's batches: `bytes` of what splits cost."""

    __slots__ = ("_shortest_ms", "_stages", "bytes")

    def __init__(self) -> None:
        self.bytes = LIMIT_START
        self._stages = 0
        self._shortest_ms: int | None = None

    def cost(self, split: SourceSplit) -> int:
        """What a split weighs in a batch; one without a size fills it."""
        if split.size_bytes is None:
            return self.bytes
        return max(split.size_bytes, ROW_BYTES * split.rows) + OPEN_BYTES

    def next_batch(self, splits: Iterable[SourceSplit]) -> int:
        """How many of these splits, from the first on, are the next batch; at least one, where there is one."""
        count = total = 0
        for split in splits:
            total += self.cost(split)
            if count and (split.size_bytes is None or total > self.bytes):
                break
            count += 1
            if split.size_bytes is None:
                break
        return count

    def learn(self, cost: int, duration_ms: int) -> None:
        """A stage has finished that read splits of this cost, and took so long."""
        is_cold = self._stages < COLD_STAGES
        self._stages += 1
        self._shortest_ms = duration_ms if self._shortest_ms is None else min(self._shortest_ms, duration_ms)
        target_ms = max(TARGET_MS, 2 * self._shortest_ms)
        wanted = cost * target_ms // max(duration_ms, 1)
        is_full = 2 * cost >= self.bytes
        if wanted > self.bytes and is_full:
            self.bytes = min(wanted, GROWTH * self.bytes, LIMIT_MAX)
        elif wanted < self.bytes and (is_full or duration_ms > target_ms) and not is_cold:
            self.bytes = max(wanted, self.bytes // 2, LIMIT_MIN)

    def check(self) -> None:
        """Assert the invariant."""
        assert LIMIT_MIN <= self.bytes <= LIMIT_MAX, f"a batch is limited to {self.bytes} bytes"
