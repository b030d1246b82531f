"""Opens the operators of an attempt before its first batch, and closes them after its last, once each.

As in Flink's operator chains, the order is from the last operator to the first, for opening and closing. Every operator
whose opening began is closed, even if opening failed, to release the resources of a partial opening too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.operators.stateless import TransformOperator

if TYPE_CHECKING:
    from flykka.messages.tasks.accumulator import AccumulatorSnapshot
    from flykka.spark_bridge.operators.broadcast_variables import BroadcastVariables
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.accumulators import AccumulatorRegistry
    from flykka.spark_bridge.session.attempt_scope import AttemptScope

logger = logging.getLogger("flykka.spark_bridge")


class OperatorLifecycle:
    """Thread-safe."""

    def __init__(
        self,
        operators: Iterable[Operator[Any]],
        scope: AttemptScope,
        accumulators: AccumulatorRegistry,
        variables: BroadcastVariables,
    ) -> None:
        self._variables = variables
        self._opening = Lock()
        self._is_open = False
        self._last_to_first = tuple(reversed(tuple(operators)))
        self._scope = scope
        self._accumulators = accumulators
        self._lock = Lock()
        self._begun: list[Operator[Any]] = []

    @property
    def runs_user_code(self) -> bool:
        """True if closing calls user code, which may block."""
        return any(isinstance(each, TransformOperator) and each.is_ordered for each in self._last_to_first)

    def accumulators(self) -> tuple[AccumulatorSnapshot, ...]:
        return self._accumulators.snapshot()

    def open(self) -> None:
        """Open all operators, unless they are open already.

        Raises:
            OperatorFailedError: a function has raised; the operators upstream of it are not opened.
            AttemptCancelledError: the attempt was cancelled.
        """
        with self._opening:
            for operator in () if self._is_open else self._last_to_first:
                self._scope.check()
                with self._lock:
                    self._begun.append(operator)
                operator.open()
            self._is_open = True

    def close(self) -> OperatorFailedError | None:
        """Close all operators whose opening began, even after failures. Return the first failure; log all others."""
        with self._lock:
            opened, self._begun = self._begun, []
        failure: OperatorFailedError | None = None
        for operator in opened:
            try:
                operator.close()
            except OperatorFailedError as failed:
                if failure is not None:
                    logger.warning("%s: %s failed too", self._scope.attempt, failed, exc_info=True)
                else:
                    failure = failed
        self._variables.close()
        return failure
