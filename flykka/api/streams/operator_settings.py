"""Settings of one operator, which are set after its declaration: its names, parallelism, slots and chaining."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Self

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.migration_hints import MigrationHints
from flykka.api.resource_options import resource_spec
from flykka.api.streams.auto_parallelism import PARALLELISM_AUTO_MAX
from flykka.api.streams.program import at_least_one, parallelism_or_auto
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.runtime.memory_size import MemorySize

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow

_HASH = re.compile(r"[0-9A-Fa-f]{32}")


class OperatorSettings:
    """Settings of the operator that emits a stream or writes a sink. All raise `ProgramError` without an operator."""

    flow: Dataflow

    def name(self, name: str) -> Self:
        """Set the name of the operator in traces, metrics and the console."""
        self.flow.operator.name = name
        return self

    def uid(self, uid: str) -> Self:
        """Set the permanent id of the operator, which identifies its state in checkpoints.

        Raises:
            DuplicateUidError: another operator has the uid.
            ProgramError: the uid is empty.
        """
        self.flow.program.set_uid(self.flow.operator, uid)
        return self

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Set the number of subtasks of the operator; `"auto"` uses the available slots (`PARALLELISM_AUTO_MAX`).

        With `"auto"`, the slots with which the cluster started are divided evenly among the slot sharing groups that
        use `"auto"`, up to the operator's limit.

        Raises:
            ProgramError: the number is below 1, or above 1 for an operator that runs in one subtask only.
        """
        operator = self.flow.operator
        number, limit = parallelism_or_auto(parallelism, f"parallelism of {operator}"), operator.parallelism_limit
        if limit is not None and limit < number != PARALLELISM_AUTO_MAX:
            raise ProgramError(f"the parallelism of {operator} must be at most {limit}, not {number}")
        operator.parallelism = number
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator, which is a permanent limit of its parallelism.

        Raises:
            ProgramError: the number is below 1.
        """
        what = f"maximum parallelism of {self.flow.operator}"
        self.flow.operator.max_parallelism = at_least_one(max_parallelism, what)
        return self

    def slot_sharing_group(self, group: str) -> Self:
        """Set the slot sharing group: subtasks share slots only with subtasks of the same group.

        The default is the group of the inputs if they all have the same group, else "default". A job needs as many
        slots for each group as the group's largest parallelism.

        Raises:
            ProgramError: the name is empty.
        """
        self.flow.operator.slot_sharing_group = _checked_name(group, f"slot sharing group of {self.flow.operator}")
        return self

    def set_resources(
        self, cpu: float | None = None, memory: MemorySize | None = None, managed_memory: MemorySize | None = None
    ) -> Self:
        """Set the minimum cores, memory, and managed memory (for state) of the slots of the operator's subtasks.

        Operators that run in the same task, or share a slot, need the sum of their resources. A slot of that size is
        allocated if the TaskManagers have declared their resources. For a resource that no operator sets, the slot gets
        an equal share.

        Raises:
            ProgramError: nothing is set, a value is not a number of cores or a size; or this is a side output, which
                runs in the tasks of its operator.
        """
        what = str(self.flow.operator)
        if self.flow.operator.code.reads_side_output is not None:
            raise ProgramError(f"the resources of {what} are those of {self.flow.operator.inputs[0].source}")
        resources = resource_spec(cpu, memory, managed_memory, what)
        if resources == ResourceSpec():
            raise ProgramError(f"the resources of {what} are not set: give cpu, memory or managed_memory")
        self.flow.operator.resources = resources
        return self

    def set_co_location_group_key(self, key: str) -> Self:
        """Run the subtasks in the same slots as the subtasks of other operators with this key.

        The operators must be in the same slot sharing group. That alone puts them in the same slots if possible; with a
        key, a job for which this is impossible is refused.

        Raises:
            ProgramError: the key is empty.
        """
        self.flow.operator.co_location_group_key = _checked_name(key, f"co-location group of {self.flow.operator}")
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the operator id under which earlier jobs without uids stored the state; `flykka plan` shows this id.

        Raises:
            ProgramError: `uid_hash` does not consist of 32 hexadecimal digits.
        """
        if not isinstance(uid_hash, str) or not _HASH.fullmatch(uid_hash):
            raise ProgramError(
                f"the uid hash of {self.flow.operator} must be an operator id, 32 hexadecimal digits, not {uid_hash!r}"
            )
        self.flow.operator.uid_hash = uid_hash.lower()
        return self

    def start_new_chain(self) -> Self:
        """Start a new task with the operator; downstream operators may still be chained to it."""
        self.flow.operator.chaining = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in its own tasks, without chaining it to its inputs or downstream operators."""
        self.flow.operator.chaining = ChainingStrategy.NEVER
        return self


class DataStreamSink(OperatorSettings, MigrationHints):
    _hint_tables = ("sink",)

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow


def _checked_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"the {what} must be a non-empty text, not {name!r}")
    return name
