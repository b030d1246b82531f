"""Measures recording, replay and simulation of runs: `python -m benchmarks.traces`.

record_turns_per_s             turns of eight light actors on threads that forward one message, each with its effect, in
                               compressed and checksummed blocks; the time ends when the file is complete
replay_turns_per_s             the same file, every turn replayed and compared with its record
bytes_per_turn                 the file of a job of 256 tasks that takes checkpoints, from submission to cancellation
simulated_turns_per_s          turns of a whole cluster in virtual time, with faults, the codec and the monitors on
checkpoints_simulated_per_s    completed checkpoints of these simulations

The medians of several rounds count, after a warm-up round; each round simulates other seeds.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.traces.checkpoints import bytes_per_turn
from benchmarks.traces.circle import record_circle
from flykka.replay.replayer import Replayer
from flykka.simulation.simulation import simulate

_TURNS = 300_000
_CHECKPOINTS = 20
_SEEDS = 60


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        found = measure(Path(folder), options.repeat, options.scale, say)
    print(json.dumps(found, indent=2) if options.json else _table(found))
    return 0


def measure(folder: Path, repeat: int, scale: float, say: Callable[[str], object]) -> dict[str, float]:
    rounds: dict[str, list[float]] = {}
    for number in range(repeat + 1):
        found = {
            **_recorded_and_replayed(folder / "circle.trace", int(_TURNS * scale)),
            **_simulated(range(number * _SEEDS, number * _SEEDS + max(1, int(_SEEDS * scale)))),
        }
        say(f"{f'round {number}' if number else 'warm-up'}: {_line(found)}")
        for name, figure in found.items() if number else ():
            rounds.setdefault(name, []).append(figure)
    size = bytes_per_turn(folder / "job.trace", max(1, int(_CHECKPOINTS * scale)))
    medians = {name: median(figures) for name, figures in rounds.items()}
    return {name: round({**medians, "bytes_per_turn": size}[name], 1) for name in _UNITS}


def _recorded_and_replayed(path: Path, turns: int) -> dict[str, float]:
    gc.collect()
    recorded_s = record_circle(path, turns)
    gc.collect()
    begun = time.perf_counter()
    result = Replayer().replay(path, raise_on_divergence=True)
    replayed_s = time.perf_counter() - begun
    return {"record_turns_per_s": turns / recorded_s, "replay_turns_per_s": result.compared / replayed_s}


def _simulated(seeds: range) -> dict[str, float]:
    gc.collect()
    begun = time.perf_counter()
    outcomes = [simulate(seed) for seed in seeds]
    seconds = time.perf_counter() - begun
    return {
        "simulated_turns_per_s": sum(outcome.turns for outcome in outcomes) / seconds,
        "checkpoints_simulated_per_s": sum(outcome.checkpoints.completed for outcome in outcomes) / seconds,
    }


_UNITS = {
    "record_turns_per_s": "turns/s recorded",
    "replay_turns_per_s": "turns/s replayed",
    "bytes_per_turn": "bytes for a turn of checkpoint traffic",
    "simulated_turns_per_s": "turns/s simulated",
    "checkpoints_simulated_per_s": "checkpoints/s simulated",
}


def _table(found: dict[str, float]) -> str:
    return "\n".join(f"{found[name]:>12,.1f}  {unit}" for name, unit in _UNITS.items())


def _line(found: dict[str, float]) -> str:
    return ", ".join(f"{figure:,.0f} {_UNITS[name]}" for name, figure in found.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.traces",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeat", type=int, default=3, help="rounds that count (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the turns and seeds (default 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
