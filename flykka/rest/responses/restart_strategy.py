"""A restart strategy in a line."""

from __future__ import annotations

from flykka.messages.graph.restart_strategies import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)


def in_words(strategy: RestartStrategyConfiguration) -> str:
    """Its name and its figures, as Flink says them."""
    match strategy:
        case NoRestartStrategyConfiguration():
            return "Restart deactivated."
        case FixedDelayRestartStrategyConfiguration(attempts=None, delay_ms=delay):
            return f"Restart with fixed delay ({delay} ms), without end."
        case FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=delay):
            return f"Restart with fixed delay ({delay} ms). #{attempts} restart attempts."
        case FailureRateRestartStrategyConfiguration(max_failures=most, interval_ms=interval, delay_ms=delay):
            return (
                f"Failure rate restart with maximum of {most} failures within interval {interval} ms, {delay} ms delay."
            )
        case ExponentialDelayRestartStrategyConfiguration():
            return (
                f"Exponential delay: starting at {strategy.initial_backoff_ms} ms, increasing by"
                f" {strategy.backoff_multiplier} up to {strategy.max_backoff_ms} ms."
            )
