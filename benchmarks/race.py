"""The engines take turns on the same bids, and what each has written is compared with what the batch wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.bids import beginning, prepared
from benchmarks.comparison import check, check_closed_windows, result
from benchmarks.contestant import Contestant, Run
from benchmarks.engines import EngineName
from benchmarks.results import Runs


class TooFewCheckpointsError(Exception):
    """A run was over before enough checkpoints were completed: it says nothing about a job that takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is run, how often, and how many checkpoints a run of flykka's must have to count."""

    rows: int
    files: int
    sizes: tuple[int, ...]
    engines: tuple[EngineName, ...]
    repeat: int
    checkpoints_at_least: int

    @property
    def rows_per_file(self) -> int:
        """Of the largest file."""
        return -(-self.rows // self.files)

    @property
    def warm_up_files(self) -> int:
        """A quarter of the bids."""
        return max(1, self.files // 4)


class Race:
    """The engines at all sizes of batch; each turn is in the same order, and begins with the batch, the judge of it."""

    def __init__(self, rules: Rules, folder: Path, say: Callable[[str], object]) -> None:
        """What each engine has written last lies in `folder`; `say` is told how it goes."""
        self._rules = rules
        self._folder = folder
        self._say = say

    def run(self) -> Runs:
        """Warm up, then let them take turns.

        Raises:
            EngineFailedError: the process of an engine ended.
            WrongResultError: an engine did not compute what the batch did.
            TooFewCheckpointsError: a run of flykka's had fewer than the rules want.
        """
        rules = self._rules
        self._say(f"preparing {rules.rows:,} bids in {rules.files} files")
        bids = prepared(rules.rows, rules.files)
        warm_up = beginning(bids, rules.warm_up_files)
        runs: dict[tuple[EngineName, int], list[Run]] = {}
        with ExitStack() as stack:
            contestants = self._started(stack)
            for contestant, _ in self._turn(contestants, warm_up):
                self._say(f"{contestant}: warm")
            for number in range(rules.repeat):
                for contestant, run in self._turn(contestants, bids):
                    self._say(f"round {number + 1}: {contestant}: {rules.rows / run.seconds:,.0f} rows/s")
                    self._check_checkpoints(contestant, run)
                    for size in (
                        rules.sizes if contestant.engine is EngineName.SPARK_BATCH else (contestant.rows_per_batch,)
                    ):
                        runs.setdefault((contestant.engine, size), []).append(run)
        return runs

    def _started(self, stack: ExitStack) -> list[Contestant]:
        rules = self._rules
        # A batch has no size: one process and one figure for all sizes.
        wanted = [(EngineName.SPARK_BATCH, rules.sizes[0])]
        wanted += [(name, size) for size in rules.sizes for name in rules.engines if name is not EngineName.SPARK_BATCH]
        contestants = [stack.enter_context(Contestant(name, size, rules.rows_per_file)) for name, size in wanted]
        for contestant in contestants:
            contestant.wait_ready()
        return contestants

    def _turn(self, contestants: list[Contestant], bids: Path) -> Iterator[tuple[Contestant, Run]]:
        """Each runs once, and what it wrote is compared."""
        expected: pa.Table | None = None
        for contestant in contestants:
            place = self._folder / f"{contestant.engine}-{contestant.rows_per_batch}"
            if place.exists():
                shutil.rmtree(place)
            place.mkdir()
            run = contestant.run(bids, place / "output", place)
            found = result(place / "output")
            if expected is None:
                expected = found
            elif contestant.engine is EngineName.STRUCTURED_STREAMING:
                check_closed_windows(contestant, found, expected)
            else:
                check(contestant, found, expected)
            yield contestant, run

    def _check_checkpoints(self, contestant: Contestant, run: Run) -> None:
        wanted = self._rules.checkpoints_at_least
        if contestant.engine is EngineName.FLYKKA and (run.checkpoints or 0) < wanted:
            raise TooFewCheckpointsError(
                f"{contestant} completed {run.checkpoints} checkpoints in {run.seconds:.1f} s, not {wanted}: "
                "give it more rows"
            )
