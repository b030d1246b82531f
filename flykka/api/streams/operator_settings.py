"""Settings of one operator, given after its declaration: its names, its parallelism, its slots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Self

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.foreign_names import NamesElsewhere
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
    """Settings of the operator that a stream or a sink stands for. All raise `ProgramError` if it is no operator."""

    flow: Dataflow

    def name(self, name: str) -> Self:
        """Name the operator for those who read traces and the console."""
        self.flow.operator.name = name
        return self

    def uid(self, uid: str) -> Self:
        """Name the operator for good: its state is found by this.

        Raises:
            DuplicateUidError: the uid is taken.
            ProgramError: it is empty.
        """
        self.flow.program.set_uid(self.flow.operator, uid)
        return self

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Run the operator in this many subtasks; `"auto"` is as many as the slots give (`PARALLELISM_AUTO_MAX`).

        These are the slots that the cluster was made with, shared evenly by the slot sharing groups that take what
        there is, and never more subtasks than the operator may have.

        Raises:
            ProgramError: the number is below 1, or above 1 for an operator that runs in one subtask only.
        """
        operator = self.flow.operator
        wanted, limit = parallelism_or_auto(parallelism, f"parallelism of {operator}"), operator.parallelism_limit
        if limit is not None and limit < wanted != PARALLELISM_AUTO_MAX:
            raise ProgramError(f"the parallelism of {operator} is {limit} at most, not {wanted}")
        operator.parallelism = wanted
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Cut its keys into this many key groups: it can never be scaled to more subtasks.

        Raises:
            ProgramError: the number is below 1.
        """
        what = f"maximum parallelism of {self.flow.operator}"
        self.flow.operator.max_parallelism = at_least_one(max_parallelism, what)
        return self

    def slot_sharing_group(self, group: str) -> Self:
        """Let its subtasks share slots with this group's only.

        Unless set it is the group of its inputs where they agree, else "default". A job needs for each group as many
        slots as its largest parallelism.

        Raises:
            ProgramError: the name is empty.
        """
        self.flow.operator.slot_sharing_group = _named(group, f"slot sharing group of {self.flow.operator}")
        return self

    def set_resources(
        self, cpu: float | None = None, memory: MemorySize | None = None, managed_memory: MemorySize | None = None
    ) -> Self:
        """Run each of its subtasks in a slot with so many cores, memory, and managed memory for state, at least.

        Operators that run as one task, or share a slot, need the sum of what each asks for. A slot of that size is cut
        where the TaskManagers have declared what they have; what nobody asks for it has as a slot of equal share.

        Raises:
            ProgramError: nothing is said, or one is no number of cores, or no size of memory; or this is a side output,
                which runs in the tasks of its operator.
        """
        what = str(self.flow.operator)
        if self.flow.operator.code.reads_side_output is not None:
            raise ProgramError(f"the resources of {what} are those of {self.flow.operator.inputs[0].source}")
        resources = resource_spec(cpu, memory, managed_memory, what)
        if resources == ResourceSpec():
            raise ProgramError(f"the resources of {what} are not said: give cpu, memory or managed_memory")
        self.flow.operator.resources = resources
        return self

    def set_co_location_group_key(self, key: str) -> Self:
        """Let its subtasks run in the same slots as those of the other operators with this key.

        They must share slots: operators of one sharing group run in one slot anyhow, and with a key they are refused
        where somebody parts them.

        Raises:
            ProgramError: the key is empty.
        """
        self.flow.operator.co_location_group_key = _named(key, f"co-location group of {self.flow.operator}")
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Find the state of the operator under this id, that a job without uids was run with, as `flykka plan` tells.

        Raises:
            ProgramError: it is no id: 32 hexadecimal digits.
        """
        if not isinstance(uid_hash, str) or not _HASH.fullmatch(uid_hash):
            raise ProgramError(
                f"the uid hash of {self.flow.operator} must be an operator id, 32 hexadecimal digits, not {uid_hash!r}"
            )
        self.flow.operator.uid_hash = uid_hash.lower()
        return self

    def start_new_chain(self) -> Self:
        """Begin a task with the operator; what follows may still be chained to it."""
        self.flow.operator.chaining = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in tasks of its own, with nothing chained to it on either side."""
        self.flow.operator.chaining = ChainingStrategy.NEVER
        return self


class DataStreamSink(OperatorSettings, NamesElsewhere):
    """The end of a stream."""

    _foreign_names = ("sink",)

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow


def _named(name: object, what: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"the {what} must be a text that names it, not {name!r}")
    return name
