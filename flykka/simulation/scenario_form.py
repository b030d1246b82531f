"""Converts a scenario to plain data, for traces, and to Python, for generated tests.

Both are derived from the dataclasses, and omit fields with default values. Plain data contains class names. Only
classes of scenarios are instantiated from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from itertools import islice
from types import UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.graph import job_graph
from flykka.messages.tasks.simulation import SimulationBegun
from flykka.messages.wire.message import Message
from flykka.messages.wire.tags import class_of
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.file.reader import TraceReader
from flykka.simulation import operators, scenario, topology
from flykka.simulation.scenario import Scenario
from flykka.simulation.settings import FaultKind
from flykka.spark_bridge.operators.join import Side

_CLASSES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        scenario.Scenario,
        scenario.JobPlan,
        scenario.Fault,
        topology.Topology,
        operators.Program,
        operators.Source,
        operators.Map,
        operators.Filter,
        operators.Window,
        operators.Process,
        operators.Join,
        operators.Tag,
        operators.Sink,
        EventTimeWindows,
        Interval,
        Side,
        FaultKind,
        job_graph.CheckpointingMode,
        job_graph.CheckpointingSettings,
        job_graph.ExternalizedCheckpointRetention,
        job_graph.FailoverStrategyKind,
        job_graph.FiringMode,
        job_graph.JobEdge,
        job_graph.JobType,
        job_graph.JobVertex,
        job_graph.MonotonyViolationHandler,
        job_graph.Operator,
        job_graph.OperatorKind,
        job_graph.OperatorRef,
        job_graph.ResourceSpec,
        job_graph.FixedDelayRestartStrategyConfiguration,
        job_graph.NoRestartStrategyConfiguration,
        job_graph.ResultPartitionType,
        job_graph.ShipStrategy,
        job_graph.WatermarkAlignment,
        job_graph.CheckpointFailureReason,
        job_graph.TolerableFailures,
    )
}
_LINE = 120
_INDENT = "    "
_LOOKED_THROUGH = 1_000
"""The number of first turns among which the client receives the scenario."""


class ScenarioError(ValueError):
    """A text is not a scenario that this version can read."""


def to_json(what: Scenario) -> str:
    return json.dumps(_plain(what), separators=(",", ":"))


def from_json(text: str) -> Scenario:
    try:
        value = _value_of(json.loads(text))
    except (ValueError, TypeError, KeyError, LookupError) as misfit:
        raise ScenarioError(f"this version of flykka cannot read the scenario: {misfit}") from misfit
    if not isinstance(value, Scenario):
        raise ScenarioError(f"this is a {type(value).__name__}, not a scenario")
    return value


def _plain(what: object) -> object:
    match what:
        case Enum():
            return {"is": type(what).__name__, "value": what.value}
        case None | bool() | int() | str():
            return what
        case tuple():
            return [_plain(each) for each in what]
        case Mapping():
            return {"is": "map", "of": [[key, _plain(each)] for key, each in what.items()]}
        case type() if issubclass(what, Message):
            return {"is": "message", "tag": what.wire_tag}
        case _:
            return {"is": type(what).__name__, **{name: _plain(each) for name, each in _explicit_fields(what)}}


def _value_of(plain: object) -> object:
    match plain:
        case list():
            return tuple(map(_value_of, plain))
        case {"is": "map", "of": [*pairs]}:
            return {key: _value_of(each) for key, each in pairs}
        case {"is": "message", "tag": str(tag)}:
            kind = class_of(tag)
            if kind is None:
                raise ScenarioError(f"there is no message {tag}")
            return kind
        case {"is": str(name), "value": value} if issubclass(_CLASSES[name], Enum):
            return _CLASSES[name](value)
        case {"is": str(name), **values}:
            return _CLASSES[name](**{str(field): _value_of(each) for field, each in values.items()})
        case _:
            return plain


def _explicit_fields(what: object) -> list[tuple[str, object]]:
    values = ((field, getattr(what, field.name)) for field in fields(what))  # type: ignore[arg-type]
    return [(field.name, value) for field, value in values if value != _default(field)]


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


class PythonSource:
    """Writes values as Python, and collects the required imports: (module, name)."""

    def __init__(self) -> None:
        self.imports: set[tuple[str, str]] = set()

    def expression(self, what: object, hint: object = None, indent: str = "", room: int = _LINE) -> str:
        """Write an expression. `hint` is its declared type, `room` the number of characters left in its first line."""
        match what:
            case Enum():
                return f"{self._named(type(what))}.{what.name}"
            case str() if isinstance(hint, NewType):
                return f"{self._named(hint)}({json.dumps(what)})"
            case str():
                return json.dumps(what)
            case None | bool() | int():
                return repr(what)
            case type():
                return self._named(what)
            case tuple():
                inner = _item_hint(hint)
                return self._group("(", [("", each, inner) for each in what], ")", indent, room)
            case Mapping():
                inner = _item_hint(hint)
                pairs = [(f"{json.dumps(key)}: ", each, inner) for key, each in what.items()]
                return self._group("{", pairs, "}", indent, room)
            case _:
                hints = get_type_hints(type(what))
                arguments = [(f"{name}=", each, hints[name]) for name, each in _explicit_fields(what)]
                return self._group(f"{self._named(type(what))}(", arguments, ")", indent, room)

    def _group(
        self, opening: str, parts: list[tuple[str, object, object]], closing: str, indent: str, room: int
    ) -> str:
        inner = [prefix + self.expression(each, hint, "", 1 << 30) for prefix, each, hint in parts]
        line = opening + ", ".join(inner) + ("," if opening == "(" and len(inner) == 1 else "") + closing
        if len(line) <= room:
            return line
        deeper = indent + _INDENT
        width = _LINE - len(deeper) - 1
        lines = [
            f"{deeper}{prefix}{self.expression(each, hint, deeper, width - len(prefix))},\n"
            for prefix, each, hint in parts
        ]
        return f"{opening}\n{''.join(lines)}{indent}{closing}"

    def _named(self, what: type | NewType) -> str:
        self.imports.add((what.__module__, what.__name__))
        return what.__name__


def _item_hint(hint: object) -> object:
    if get_origin(hint) in (Union, UnionType):
        return next((_item_hint(each) for each in get_args(hint) if get_args(each)), None)
    arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
    return arguments[-1] if arguments else None


def scenario_of(path: str | os.PathLike[str]) -> Scenario:
    """Return the scenario of a simulation's trace.

    Raises:
        TraceError: the file is not a trace of a simulation, or its scenario has another version.
        OSError: the file cannot be read.
    """
    trace = TraceReader.open(path)
    for turn in islice(trace, _LOOKED_THROUGH):
        if isinstance(turn.message, SimulationBegun):
            try:
                return from_json(turn.message.scenario)
            except ScenarioError as misfit:
                raise TraceError(f"{os.fspath(path)}: {misfit}") from misfit
    damage = trace.truncated
    if damage is not None:
        raise TraceError(
            f"{os.fspath(path)} contains no scenario up to byte {damage.offset}: "
            f"{damage.reason}; for a trace of a simulation, `flykka simulate --seed N --record DIR` writes it again"
        )
    raise TraceError(
        f"{os.fspath(path)} is not a trace of a simulation, and only simulations can be shrunk: `flykka simulate"
        " --record DIR` writes a trace for each failing seed"
    )
