"""Compares the speed of the kernel with plain Pykka: `python -m benchmarks.actors`.

Both sides handle the same messages in the same process, taking turns, so that other load on the machine affects both;
the median of each side counts. Large populations run in separate processes, because their memory is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.actors.flykka_side import FlykkaSide
from benchmarks.actors.population import Population
from benchmarks.actors.pykka_side import PykkaSide
from benchmarks.actors.results import as_json, as_table
from benchmarks.actors.rules import HEATS, Contender, Rules
from benchmarks.actors.side import Discipline, Side


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rules = Rules(repeat=options.repeat, scale=options.scale, population=options.population)
    say = partial(print, file=sys.stderr, flush=True)
    found = as_json(_rates(rules, say), _populations(rules, say))
    print(json.dumps(found, indent=2) if options.json else as_table(found, rules))
    return 0


def _rates(rules: Rules, say: Callable[[str], object]) -> dict[tuple[Contender, Discipline], list[float]]:
    rates: dict[tuple[Contender, Discipline], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        sides: dict[Contender, Side] = {
            Contender.PYKKA: PykkaSide(),
            Contender.FLYKKA: FlykkaSide(),
            Contender.FLYKKA_RECORDED: FlykkaSide(Path(folder) / "trace"),
        }
        for number in range(rules.repeat + 1):
            for heat in HEATS:
                gc.collect()
                count = rules.count(heat)
                rate = count / sides[heat.contender].measure(heat.discipline, count)
                say(f"{f'round {number}' if number else 'warm-up'}: {heat.contender} {heat.discipline}: {rate:,.0f}/s")
                if number:
                    rates.setdefault((heat.contender, heat.discipline), []).append(rate)
    return rates


def _populations(rules: Rules, say: Callable[[str], object]) -> dict[str, Population]:
    populations = {}
    for side, count in (("pykka", rules.plain_population), ("flykka", rules.population)):
        several = [_population(side, count) for _ in range(rules.repeat)]
        populations[side] = sorted(several, key=lambda each: each.start_s + each.stop_s)[len(several) // 2]
        say(f"{side}: {populations[side]}")
    return populations


def _population(side: str, count: int) -> Population:
    command = [sys.executable, "-m", "benchmarks.actors.population", side, str(count)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Population(**json.loads(answer))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.actors", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--repeat", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the messages (default 1)")
    parser.add_argument(
        "--population", type=int, default=100_000, help="actors of the kernel at once (default 100,000)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
