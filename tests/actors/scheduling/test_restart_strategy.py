"""Whether a failed job starts again."""

from __future__ import annotations

from flykka.actors.scheduling.failover import GiveUp, Restart, decide
from flykka.actors.scheduling.restart_strategy import FixedDelayRestartStrategy, restart_strategy
from flykka.messages.failure import SerializedThrowable
from flykka.messages.job_graph import RestartStrategyConfiguration

BOOM = SerializedThrowable(type_name="TestError", message="boom")
HOPELESS = SerializedThrowable(type_name="TestError", message="hopeless", suppress_restarts=True)


def test_a_fixed_delay_allows_so_many_restarts_and_no_more() -> None:
    strategy = restart_strategy(RestartStrategyConfiguration(attempts=2, delay_ms=50))

    decisions = [decide(strategy, BOOM) for _ in range(3)]

    assert decisions == [Restart(delay_ms=50), Restart(delay_ms=50), GiveUp(cause=BOOM)]


def test_without_a_number_of_attempts_there_is_no_end() -> None:
    strategy = restart_strategy(RestartStrategyConfiguration(attempts=None))

    assert {type(decide(strategy, BOOM)) for _ in range(1_000)} == {Restart}


def test_no_attempts_is_no_restart() -> None:
    strategy = restart_strategy(RestartStrategyConfiguration(attempts=0))

    assert decide(strategy, BOOM) == GiveUp(cause=BOOM)


def test_a_failure_that_no_restart_can_mend_uses_none_up() -> None:
    strategy = FixedDelayRestartStrategy(attempts=1, delay_ms=0)

    assert decide(strategy, HOPELESS) == GiveUp(cause=HOPELESS)
    assert strategy.attempts_used == 0
