"""The rich functions of an attempt: opened before its first batch, closed behind its last, each once.

The order is that of Flink's operator chains: from the last to the first, both ways. What was begun to open is closed,
whatever came of it, so that half of what a function took is let go too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.program.accumulators import AccumulatorRegistry
from flykka.spark_bridge.program.code import TransformCode
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext

if TYPE_CHECKING:
    from flykka.messages.tasks.accumulator import AccumulatorSnapshot
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.program.code_registry import CodeRegistry
    from flykka.spark_bridge.stages.chain import Chain, Link

logger = logging.getLogger("flykka.spark_bridge")


class RichFunctions:
    """Opens and closes the rich functions of one chain; they are that attempt's own copies."""

    def __init__(
        self, chain: Chain, descriptor: TaskDeploymentDescriptor, scope: AttemptScope, registry: CodeRegistry
    ) -> None:
        self._descriptor = descriptor
        self._scope = scope
        self._registry = registry
        self._last_to_first = tuple(reversed(tuple(_rich(chain))))
        self._accumulators = AccumulatorRegistry()
        self._lock = Lock()
        self._begun: list[tuple[str, RichFunction]] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._last_to_first)

    def accumulators(self) -> tuple[AccumulatorSnapshot, ...]:
        """What they have counted so far."""
        return self._accumulators.snapshot()

    def open(self) -> None:
        """Open all, unless the attempt is over.

        Raises:
            OperatorFailedError: one of them has raised; those before it stay unopened.
            AttemptCancelledError: the attempt is over.
        """
        for link, function in self._last_to_first:
            self._scope.check()
            self._begin(link.uid, function)
            try:
                function.open(self._context(link))
            except (Exception, SystemExit) as raised:
                what = f"opening operator {self._registry.describe(link.uid)}"
                raise OperatorFailedError(what, self._registry.written(link.uid)) from raised

    def close(self) -> OperatorFailedError | None:
        """Close all that were begun to open, whatever the others do; the first failure, the others are logged."""
        with self._lock:
            begun, self._begun = self._begun, []
        failure: OperatorFailedError | None = None
        for uid, function in begun:
            what = f"closing operator {self._registry.describe(uid)}"
            try:
                function.close()
            except (Exception, SystemExit) as raised:
                if failure is not None:
                    logger.warning("%s: %s failed too", self._descriptor.attempt, what, exc_info=True)
                    continue
                failure = OperatorFailedError(what, self._registry.written(uid))
                failure.__cause__ = raised
        return failure

    def _begin(self, uid: str, function: RichFunction) -> None:
        with self._lock:
            self._begun.append((uid, function))

    def _context(self, link: Link) -> RuntimeContext:
        vertex = self._descriptor.vertex
        return RuntimeContext(
            uid=link.uid,
            task_name=vertex.name,
            session=self._scope.session,
            job_id=self._descriptor.job_id,
            index_of_this_subtask=self._descriptor.subtask,
            number_of_parallel_subtasks=vertex.parallelism,
            max_number_of_parallel_subtasks=vertex.max_parallelism,
            attempt_number=self._descriptor.attempt_number,
            _accumulators=self._accumulators,
        )


def _rich(chain: Chain) -> Iterator[tuple[Link, RichFunction]]:
    for link in chain.head.walk():
        if isinstance(link.code, TransformCode) and isinstance(link.code.function, RichFunction):
            yield link, link.code.function
