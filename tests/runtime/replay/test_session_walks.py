"""Random moves in recorded runs: after each move a session equals a new replay up to that turn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flykka.runtime.replay.engine import ReplayEngine
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.replay.session import session as session_module
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.state.description import State, describe
from tests.runtime.replay import random_actors
from tests.runtime.replay import test_coroutines as coroutines

pytestmark = [pytest.mark.usefixtures("no_log_of_failures"), pytest.mark.slow]

KEPT = 12
MOVES = 20


@pytest.fixture(autouse=True)
def _keeping_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets small limits, so that even small runs have both retained and discarded steps."""
    monkeypatch.setattr(session_module, "_KEPT", KEPT)


def states_by_turn(path: Path) -> list[dict[str, State]]:
    engine = ReplayEngine(TraceReader.open(path))
    known: list[dict[str, State]] = [{}]
    while engine.advance() is not None:
        cells = [engine.system.cells.find(each) for each in engine.system.cells.living_paths()]
        living = [cell for cell in cells if cell is not None and cell.ref.path.startswith("/user/")]
        known.append({cell.ref.path: describe(cell.instance) for cell in living if cell.instance is not None})
    return known


def walk(path: Path, seed: int) -> None:
    known, session, dice = states_by_turn(path), TraceReplayer().session(path), random.Random(seed)
    numbers = [turn.sequence for turn in session.trace.turns]
    last = len(numbers)
    for _ in range(MOVES):
        position = session.position
        match dice.choice(("step", "back", "back", "at")):
            case "step":
                by = dice.randrange(1, 2 * KEPT)
                session.step(by)
                position = min(last, position + by)
            case "back":
                by = dice.choice((1, 2, KEPT - 1, KEPT, 3 * KEPT))
                session.back(by)
                position = max(0, position - by)
            case _:
                position = dice.randrange(1, last + 1)
                session.at(numbers[position - 1])

        assert session.position == position
        assert {each: session.state(each) for each in session.actors()} == known[position]


@pytest.mark.parametrize("seed", range(4))
def test_random_moves_show_the_state_of_random_actors(tmp_path: Path, seed: int) -> None:
    with SeededSystem(seed, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        random_actors.spawn_random_actors(system, seed, actors=2)
        system.advance(30)

    walk(tmp_path / "run.trace", seed)


@pytest.mark.parametrize("seed", range(3))
def test_random_moves_show_the_state_of_waiting_coroutines(tmp_path: Path, seed: int) -> None:
    with SeededSystem(seed, recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        runners = coroutines.spawn_runners(system, seed)
        system.advance(seed)
        system.kill(runners[0])
        system.advance(5)

    walk(tmp_path / "run.trace", seed)
