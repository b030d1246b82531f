"""Lets the engines take turns on the same bids, and compares the output of each with that of the batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from benchmarks.bids import prepared
from benchmarks.comparison import check, check_closed_windows, result
from benchmarks.contestant import Contestant, Run
from benchmarks.engines import EngineName
from benchmarks.results import Runs
from benchmarks.rules import WARM_UP_ROUNDS, Rules


class TooFewCheckpointsError(Exception):
    """A run ended before enough checkpoints were completed, so it does not represent a job with checkpoints."""


class Race:
    """Runs the engines, one batch size after the other.

    Each turn begins with plain Spark, with whose output the others are compared.
    """

    def __init__(self, rules: Rules, folder: Path, say: Callable[[str], object]) -> None:
        """Create a race. `folder` keeps the last output of each engine; `say` gets progress messages."""
        self._rules = rules
        self._folder = folder
        self._say = say

    def run(self) -> Runs:
        """Warm up, then let the engines take turns.

        Raises:
            EngineFailedError: the process of an engine has exited.
            WrongResultError: an engine's result differs from that of the batch.
            TooFewCheckpointsError: a run of flykka had fewer checkpoints than the rules require.
        """
        rules = self._rules
        self._say(f"preparing {rules.rows:,} bids in {rules.files} files")
        bids = prepared(rules.rows, rules.files)
        runs: dict[tuple[EngineName, int], list[Run]] = {}
        for size in rules.sizes:
            with ExitStack() as stack:
                contestants = self._started(size, stack)
                for number in range(WARM_UP_ROUNDS):
                    for contestant, _ in self._turn(contestants, bids):
                        self._say(f"warm-up {number + 1}: {contestant}")
                for number in range(rules.repeat):
                    for contestant, run in self._turn(contestants, bids):
                        self._say(f"round {number + 1}: {contestant}: {rules.rows / run.seconds:,.0f} rows/s")
                        self._check_checkpoints(contestant, run)
                        runs.setdefault((contestant.engine, size), []).append(run)
        return runs

    def _started(self, size: int, stack: ExitStack) -> list[Contestant]:
        rules = self._rules
        names = [EngineName.SPARK_BATCH, *(name for name in rules.engines if name is not EngineName.SPARK_BATCH)]
        contestants = [stack.enter_context(Contestant(name, size, rules.rows_per_file, rules.heap)) for name in names]
        for contestant in contestants:
            contestant.wait_ready()
        return contestants

    def _turn(self, contestants: list[Contestant], bids: Path) -> Iterator[tuple[Contestant, Run]]:
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
