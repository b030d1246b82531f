"""The current attempts of a job, one of each subtask: by id, and counted.

An event is about one of them, and what follows for the job is known without looking at the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_vertex import ExecutionVertex
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId


class CurrentAttempts:
    """The current attempt of each subtask, from the begin of the job to its end."""

    def __init__(self, subtasks: Iterable[ExecutionVertex]) -> None:
        self._by_id = {subtask.execution.attempt: subtask for subtask in subtasks}
        self._in_state = Counter({ExecutionState.CREATED: len(self._by_id)})
        self._at_end_of_data = 0

    def __getitem__(self, attempt: ExecutionAttemptId) -> ExecutionVertex:
        return self._by_id[attempt]

    def get(self, attempt: ExecutionAttemptId) -> Execution | None:
        subtask = self._by_id.get(attempt)
        return subtask.execution if subtask else None

    @property
    def live(self) -> int:
        return len(self._by_id) - sum(self._in_state[state] for state in EXECUTION_TERMINAL)

    @property
    def are_deployed(self) -> bool:
        """All of them run or have run to their end, as far as is known: none is yet to be deployed, or was ended."""
        counted = (ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.FINISHED)
        return sum(self._in_state[state] for state in counted) == len(self._by_id)

    @property
    def have_finished(self) -> bool:
        return self._in_state[ExecutionState.FINISHED] == len(self._by_id)

    @property
    def have_reached_end_of_data(self) -> bool:
        return self._at_end_of_data == len(self._by_id)

    def moved(self, attempt: ExecutionAttemptId, previous: ExecutionState, state: ExecutionState) -> None:
        """Note that an attempt has left a state for another."""
        self._in_state[previous] -= 1
        self._in_state[state] += 1

    def replace_attempt(self, ended: Execution, subtask: ExecutionVertex) -> None:
        """The subtask has a new attempt in the place of one that has ended."""
        del self._by_id[ended.attempt]
        self._in_state[ended.state] -= 1
        self._at_end_of_data -= ended.has_reached_end_of_data
        self._by_id[subtask.execution.attempt] = subtask
        self._in_state[ExecutionState.CREATED] += 1

    def reach_end_of_data(self, execution: Execution) -> None:
        """Note the first report of an attempt."""
        assert not execution.has_reached_end_of_data, f"{execution.attempt} has said so before"
        execution.has_reached_end_of_data = True
        self._at_end_of_data += 1

    def check(self) -> None:
        executions = [subtask.execution for subtask in self._by_id.values()]
        assert {state: count for state, count in self._in_state.items() if count} == Counter(
            execution.state for execution in executions
        )
        assert [*self._by_id] == [execution.attempt for execution in executions]
        assert self._at_end_of_data == sum(execution.has_reached_end_of_data for execution in executions)
