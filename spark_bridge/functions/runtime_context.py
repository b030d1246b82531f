"""The context passed to `open`, with Flink's names: subtask, states and metrics of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources, WithJobResources
from flykka.spark_bridge.functions.keyed_states import KeyedStates
from flykka.spark_bridge.functions.metric_group import MetricGroup
from flykka.spark_bridge.functions.namespaced_state import NamespacedState, NamespacedStateDescriptor
from flykka.spark_bridge.functions.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """The subtask in which a function runs: subtask 0 of 1 while a function is tested."""

    uid: str = ""
    task_name: str = ""
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1
    max_number_of_parallel_subtasks: int = 1
    attempt_number: int = 0

    @property
    def task_name_with_subtasks(self) -> str:
        return f"{self.task_name} ({self.index_of_this_subtask + 1}/{self.number_of_parallel_subtasks})"


class FunctionRuntimeContext(WithJobResources):
    """The argument of `open`. States are registered here, and later used for the current key.

    `get_state` and similar methods raise `StateDescriptorError` in a function without keys, if another state has the
    name, and after `open` has returned.
    """

    def __init__(
        self,
        task: TaskInfo,
        states: KeyedStates | None,
        metrics: MetricGroup,
        resources: JobResources = NO_RESOURCES,
    ) -> None:
        self.task_info = task
        self._resources = resources
        self._states = states
        self._metrics = metrics

    @property
    def uid(self) -> str:
        """The uid of the operator."""
        return self.task_info.uid

    @property
    def task_name(self) -> str:
        """The name of the task."""
        return self.task_info.task_name

    @property
    def task_name_with_subtasks(self) -> str:
        """The task's name with the number of the subtask, counted from 1: `clean (1/2)`."""
        return self.task_info.task_name_with_subtasks

    @property
    def index_of_this_subtask(self) -> int:
        """The index of the subtask, from 0."""
        return self.task_info.index_of_this_subtask

    @property
    def number_of_parallel_subtasks(self) -> int:
        """The parallelism of the task."""
        return self.task_info.number_of_parallel_subtasks

    @property
    def max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""
        return self.task_info.max_number_of_parallel_subtasks

    @property
    def attempt_number(self) -> int:
        """The number of the attempt, from 0."""
        return self.task_info.attempt_number

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of the current key."""
        return cast("ValueState[Any]", self._get(state_descriptor, ValueStateDescriptor))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of the current key."""
        return cast("ListState[Any]", self._get(state_descriptor, ListStateDescriptor))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of the current key."""
        return cast("MapState[Any, Any]", self._get(state_descriptor, MapStateDescriptor))

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of the current key."""
        return cast("ReducingState[Any]", self._get(state_descriptor, ReducingStateDescriptor))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state of the current key."""
        return cast("AggregatingState[Any, Any]", self._get(state_descriptor, AggregatingStateDescriptor))

    def get_any_state(self, state_descriptor: StateDescriptor) -> State:
        """Return the state of the current key for any type of descriptor. Used by operators."""
        return self._get(state_descriptor, type(state_descriptor))

    def get_namespaced_state(self, state_descriptor: NamespacedStateDescriptor) -> NamespacedState:
        """Return the state of the current key by namespace. Used by operators, such as those of windows."""
        return cast("NamespacedState", self._get(state_descriptor, NamespacedStateDescriptor))

    def get_metrics_group(self) -> MetricGroup:
        """Return the metrics of the operator."""
        return self._metrics

    def _job_resources(self) -> JobResources:
        return self._resources

    def _get(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> State:
        if self._states is None:
            raise StateDescriptorError(
                f"the stream has no keys, so {descriptor!r} cannot be keyed state: use a KeyedProcessFunction after"
                " key_by(...), or key both connected streams"
            )
        return self._states.get(descriptor, kind)
