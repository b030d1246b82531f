"""Programs in words, and the ids of their operators.

A program is written as `src > map(uid x) > keyed reduce > sink and > map > sink2`: `and >` goes on from the source,
`and same with y` repeats what stands behind the last operator with a uid, its last one with the uid y. Brackets are
chains: `src>[map>filter]`. What holds for all of it stands behind a semicolon or a comma.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flykka.actors.graph.stream_graph import ChainingStrategy
from flykka.jobs.job_id import new_job_id
from flykka.messages.ids import OperatorId
from flykka.messages.job_graph import JobVertex, OperatorKind, ShipStrategy
from flykka.spark_bridge.code import KeyByCode, TransformCode
from flykka.spark_bridge.code_registry import CodeRegistry
from flykka.streams.program import Program
from flykka.streams.stream_graph_generator import Defaults, stream_graph
from flykka.streams.transformation import Input, Transformation, partitioned
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.job_graph.program import job_graph_of

_UNION_PROGRAM = "src > map > filter > keyed reduce > map and src > filter and src > filter, union, sink"
_NAMED = {"the union program of chain-union-not-chained": _UNION_PROGRAM, "the union program": _UNION_PROGRAM}
_AGAIN = re.compile(r"(the )?same( program)?( built)?( again| twice)?(?= *(,|;|$))")
_KINDS = {"src", "source", "map", "filter", "reduce", "flatmap", "process", "sink"}
_OPERATOR = re.compile(r"(?P<open>\[?)\s*(?P<keyed>keyed )?(?P<name>\w+)\s*(\((?P<ids>[^)]*)\))?\s*(?P<close>\]?)")
_NUMBERS = {"two": 2, "three": 3, "four": 4}


@dataclass(frozen=True, kw_only=True)
class _Operator:
    name: str
    inputs: tuple[int, ...]
    is_keyed: bool = False
    uid: str | None = None
    uid_hash: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS


@dataclass(kw_only=True)
class _Written:
    """A program as it is written down; operators read others by their place."""

    operators: list[_Operator] = field(default_factory=list)
    chaining_enabled: bool = True
    auto_generated_uids: bool = True
    parallelism: int = 1

    def add(self, operator: _Operator) -> int:
        self.operators.append(operator)
        return len(self.operators) - 1


class OperatorIdsCase:
    """One program or two, and what ids their operators have."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, {"kind", "program", "second_program"})
        first = _read(given["program"], None)
        self._first = _Built(first)
        self._second = _Built(_read(given["second_program"], first)) if "second_program" in given else None

    def check(self, expect: Mapping[str, Any]) -> None:
        """Assert what the case expects."""
        for word, wanted in expect.items():
            if word != "error":
                assert self._see(word, wanted) == wanted, word

    def _see(self, word: str, wanted: Any) -> Any:
        first, second = self._first, self._second
        if word == "all_ids_distinct":
            return len(set(first.ids)) == len(first.ids)
        assert second is not None, f"{word} needs a second program"
        match word:
            case "all_ids_equal":
                return first.ids == second.ids
            case "ids_of_uids_equal":
                return [uid for uid in wanted if first.by_uid(uid) == second.by_uid(uid)]
            case "job_ids_equal":
                return first.job_id == second.job_id
        named = re.fullmatch(r"id_of_(?:the_)?(\w+?)(?:_vertex)?_equal", word)
        if named is None:
            raise UnknownWordError(word)
        return first.vertex(named[1]).vertex_id == second.vertex(named[1]).vertex_id


class _Built:
    def __init__(self, written: _Written) -> None:
        program = Program()
        made: list[Transformation] = []
        for position, operator in enumerate(written.operators, 1):
            made.append(_transformation(operator, position, made))
            program.add(made[-1])
        defaults = Defaults(
            parallelism=written.parallelism,
            chaining_enabled=written.chaining_enabled,
            auto_generated_uids=written.auto_generated_uids,
        )
        self._graph = job_graph_of(stream_graph(made, CodeRegistry(), defaults))
        self._operators = [operator for vertex in self._graph.vertices for operator in vertex.operators]
        self.job_id = new_job_id()

    @property
    def ids(self) -> list[OperatorId]:
        return [operator.operator_id for operator in self._operators]

    def by_uid(self, uid: str) -> OperatorId:
        return next(operator.operator_id for operator in self._operators if operator.ref.uid == uid)

    def vertex(self, which: str) -> JobVertex:
        if which == "first":
            return self._graph.vertices[0]
        if which == "last":
            return self._graph.vertices[-1]
        return next(vertex for vertex in self._graph.vertices if any(each.name == which for each in vertex.operators))


def _transformation(operator: _Operator, position: int, before: list[Transformation]) -> Transformation:
    inputs = tuple(Input(source=before[place]) for place in operator.inputs)
    if operator.is_keyed:
        inputs = partitioned(inputs, ShipStrategy.HASH, KeyByCode(columns=("key",)))
    return Transformation(
        kind=OperatorKind.STATELESS if inputs else OperatorKind.SOURCE,
        position=position,
        name=operator.name,
        code=TransformCode(function=lambda rows: rows),
        inputs=inputs,
        explicit_uid=operator.uid,
        uid_hash=operator.uid_hash,
        chaining=operator.chaining,
    )


def _read(text: str, before: _Written | None) -> _Written:
    """The program of a text; one that is the same as `before`, but for what is said behind it."""
    text = _NAMED.get(text.strip(), text.strip())
    same = _AGAIN.match(text)
    if same is not None and before is not None:
        written = replace(before, operators=list(before.operators))
        said = text[same.end() :]
    else:
        written, said = _flow(text)
    for clause in re.split(r"[;,]", said):
        _apply(clause.strip(), written)
    return written


def _flow(text: str) -> tuple[_Written, str]:
    """The dataflow that a text begins with, and what it says beside."""
    written = _Written()
    many = re.match(r"(\w+) (?:identical )?sources, union, sink", text)
    if many is not None:
        sources = [written.add(_Operator(name="src", inputs=())) for _ in range(_NUMBERS[many[1]])]
        written.add(_Operator(name="sink", inputs=tuple(sources)))
        return written, text[many.end() :]
    flow, _, said = text.partition(";")
    flow, _, clauses = flow.partition(",")
    flow = re.sub(r"\s+(without uids|chained)$", "", flow)
    ends: list[int] = []
    for number, branch in enumerate(re.split(r"\s+and\s+", flow)):
        if branch.startswith("same with "):
            _repeat(written, branch.removeprefix("same with "))
        else:
            ends.append(_branch(written, branch, is_first=number == 0))
    if clauses.startswith(" union, "):
        target, _, clauses = clauses.removeprefix(" union, ").partition(",")
        written.add(_Operator(name=target.strip(), inputs=tuple(ends)))
    return written, ";".join([clauses, said])


def _branch(written: _Written, text: str, *, is_first: bool) -> int:
    """Operators in a row; the place of the last one."""
    steps = text.split(">")
    last: int | None = None
    if not is_first and not steps[0].strip():
        last, steps = 0, steps[1:]
    behind_chain = False
    for step in steps:
        found = _OPERATOR.fullmatch(step.strip())
        if found is None or re.sub(r"\d+$", "", found["name"]) not in _KINDS:
            raise UnknownWordError(f"operator {step.strip()!r}")
        begins = last is not None and (bool(found["open"]) or behind_chain)
        last = written.add(
            _Operator(
                name=found["name"],
                inputs=() if last is None else (last,),
                is_keyed=bool(found["keyed"]),
                chaining=ChainingStrategy.HEAD if begins else ChainingStrategy.ALWAYS,
                **_ids(found["ids"] or ""),
            )
        )
        behind_chain = bool(found["close"])
    assert last is not None
    return last


def _ids(text: str) -> dict[str, str]:
    ids: dict[str, str] = {}
    for said in filter(None, (each.strip() for each in text.split(","))):
        word, _, name = said.partition(" ")
        if word not in ("uid", "hash") or not name:
            raise UnknownWordError(f"({text})")
        ids["uid" if word == "uid" else "uid_hash"] = name.strip()
    return ids


def _repeat(written: _Written, uid: str) -> None:
    """The last branch once more, from behind its last operator with a uid; the last operator is called `uid`."""
    end = len(written.operators) - 1
    begin = max(place for place in range(end) if written.operators[place].uid is not None)
    last = begin
    for operator in written.operators[begin + 1 :]:
        last = written.add(replace(operator, inputs=(last,)))
    written.operators[last] = replace(written.operators[last], uid=uid)


def _apply(clause: str, written: _Written) -> None:
    """What a text says of a whole program, or of one of its operators."""
    named = re.fullmatch(r"(\w+) (starts a new chain|is not chained|disables chaining|(?:is )?renamed)", clause)
    match clause:
        case "" | "chained" | "chaining on" | "without uids" | "with uids":
            return
        case "chaining off" | "chaining disabled" | "chaining switched off":
            written.chaining_enabled = False
        case "automatic uids disabled" | "auto uids disabled" | "automatic uids off":
            written.auto_generated_uids = False
        case "all operators renamed" | "other names" | "operators renamed":
            written.operators = [replace(each, name=f"{each.name}-renamed") for each in written.operators]
        case _ if found := re.fullmatch(r"parallelism (\d+)", clause):
            written.parallelism = int(found[1])
        case _ if named is not None:
            place = next((index for index, each in enumerate(written.operators) if each.name == named[1]), None)
            if place is None:
                raise UnknownWordError(f"{clause!r} of a program without it")
            written.operators[place] = _changed(written.operators[place], named[2])
        case _:
            raise UnknownWordError(clause)


def _changed(operator: _Operator, how: str) -> _Operator:
    match how:
        case "starts a new chain":
            return replace(operator, chaining=ChainingStrategy.HEAD)
        case "is not chained" | "disables chaining":
            return replace(operator, chaining=ChainingStrategy.NEVER)
        case _:
            return replace(operator, name=f"{operator.name}-renamed")
