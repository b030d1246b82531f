"""The kills: each is a run of the job with one fault, and the output that readers see afterwards.

Every kind of fault occurs equally often, at moments drawn from a seed. A run whose moment did not occur does not count,
because runs differ slightly in their messages; then another moment is drawn.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from pyarrow import ArrowInvalid

from benchmarks.recovery import sales
from benchmarks.recovery.counting import Counted, counted
from benchmarks.recovery.disk import Disk
from benchmarks.recovery.driver import run_killed
from benchmarks.recovery.fault_injection import FaultInjector, Kind
from benchmarks.recovery.moments import Moment, Observed, drawn, inject_at
from flykka import StreamExecutionEnvironment
from flykka.errors import FlykkaError

QUIET_S_AT_MOST = 120.0
"""The maximum number of seconds without a completed checkpoint; after that, a job hangs."""

_DRAWS_AT_MOST = 20


class WrongWithoutKillError(Exception):
    """The output was wrong without a fault."""


class NoMomentError(Exception):
    """None of the drawn moments occurred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A kill that has happened, and its outcome: `end` is empty if the job finished."""

    number: int
    kind: Kind
    moment: Moment
    found: Counted
    end: str = ""

    @property
    def is_right(self) -> bool:
        return self.found == Counted() and not self.end

    def __str__(self) -> str:
        found = f"lost {self.found.lost}, duplicated {self.found.duplicated}"
        return f"kill {self.number}: {self.kind} at {self.moment}: {found}{self.end and f', {self.end}'}"


class Kills:
    """A campaign: `tried` kills of `kinds`, one after the other, drawn from `seed`."""

    def __init__(self, folder: Path, seed: int, tried: int, kinds: tuple[Kind, ...], say: Callable[[str], object]):
        """Create a campaign. `folder` contains the input and the current run's output; failed runs keep theirs."""
        self._folder = folder
        self._chance = random.Random(seed)
        self._turns = islice(cycle(kinds), tried)
        self._say = say
        self._truth = sales.table()

    def run(self) -> Iterator[Kill]:
        """Yield each kill when it has happened.

        Raises:
            WrongWithoutKillError: even the output of a run without a fault is wrong.
            NoMomentError: the drawn moments do not occur.
        """
        self._input = sales.write(self._folder / "input")
        observed = self._observed()
        self._say(f"a run without a kill: {sum(observed.values()):,} messages of {len(observed)} kinds")
        for number, kind in enumerate(self._turns):
            yield self._kill(number, kind, observed)

    def _observed(self) -> dict[str, int]:
        folder = self._new_folder("observed")
        with StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=2) as env:
            observed = Observed(env.cluster.system)
            sales.wait_for_end(sales.start(env, self._input, folder), QUIET_S_AT_MOST)
        found = counted(folder, self._truth)
        if found != Counted():
            raise WrongWithoutKillError(f"without a kill: lost {found.lost}, duplicated {found.duplicated}")
        return dict(observed.messages)

    def _kill(self, number: int, kind: Kind, observed: dict[str, int]) -> Kill:
        for _ in range(_DRAWS_AT_MOST):
            moment = drawn(self._chance, observed)
            folder = self._new_folder(f"kill-{number}")
            with _disk(folder) if kind is Kind.POWER else nullcontext() as disk:
                outputs = folder if disk is None else disk.mounted
                if kind in (Kind.DRIVER, Kind.POWER):
                    was_killed, end = run_killed(self._input, outputs, moment, QUIET_S_AT_MOST, disk)
                else:
                    was_killed, end = self._run_with_kill(kind, moment, outputs)
                found = Counted()
                try:
                    found = counted(outputs, self._truth) if was_killed else found
                except ArrowInvalid as broken:
                    end = f"a published file is broken: {broken}"
            kill = Kill(number=number, kind=kind, moment=moment, found=found, end=end)
            if kill.is_right:
                shutil.rmtree(folder)
            if was_killed:
                self._say(str(kill))
                return kill
        raise NoMomentError(f"kill {number}: none of {_DRAWS_AT_MOST} moments of {kind} has come")

    def _run_with_kill(self, kind: Kind, moment: Moment, folder: Path) -> tuple[bool, str]:
        """Return whether the target was killed, and the error of the job if it failed."""
        end = ""
        with StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=2) as env:
            injector = FaultInjector(env, folder, random.Random(self._chance.random()))
            fault = inject_at(env.cluster.system, moment, lambda: injector.inject(kind))
            try:
                client = sales.start(env, self._input, folder)
                try:
                    sales.wait_for_end(client, QUIET_S_AT_MOST)
                except TimeoutError:
                    (folder / "why").write_text(str(client.why()), encoding="utf-8")
                    raise
            except (FlykkaError, TimeoutError) as failure:
                end = f"{type(failure).__name__}: {failure}".partition("\n")[0]
            has_met = injector.end()
        return bool(end) or (fault.done and has_met), end

    def _new_folder(self, name: str) -> Path:
        folder = self._folder / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return folder


@contextmanager
def _disk(folder: Path) -> Iterator[Disk]:
    disk = Disk(folder)
    disk.create()
    try:
        yield disk
    finally:
        disk.remove()
