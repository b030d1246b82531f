"""The ids of operators in programs that are described in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.api.streams.transformation import Input, Transformation, partitioned
from flykka.client.job_client import new_job_id
from flykka.messages.graph.job_graph import JobVertex, OperatorKind, ShipStrategy
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.stateless import TransformCode
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.job_graph.program import job_graph_of
from tests.conformance.job_graph.words import WrittenOperator, WrittenProgram, read_program


class OperatorIdsCase:
    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, {"kind", "program", "second_program"})
        first = read_program(given["program"], None)
        self._first = _Built(first)
        self._second = _Built(read_program(given["second_program"], first)) if "second_program" in given else None

    def check(self, expect: Mapping[str, Any]) -> None:
        for word, wanted in expect.items():
            if word != "error":
                assert self._see(word, wanted) == wanted, word

    def _see(self, word: str, wanted: Any) -> Any:
        first, second = self._first, self._second
        if word in ("all_ids_distinct", "ids_distinct"):
            return len(set(first.ids)) == len(first.ids)
        if word == "user_hashes":
            return first.user_hashes
        assert second is not None, f"{word} needs a second program"
        match word:
            case "all_ids_equal" | "ids_equal":
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
    def __init__(self, written: WrittenProgram) -> None:
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

    @property
    def user_hashes(self) -> list[OperatorId]:
        named = (operator.user_defined_operator_id for operator in self._operators)
        return [each for each in named if each is not None]

    def by_uid(self, uid: str) -> OperatorId:
        return next(operator.operator_id for operator in self._operators if operator.ref.uid == uid)

    def vertex(self, which: str) -> JobVertex:
        if which == "first":
            return self._graph.vertices[0]
        if which == "last":
            return self._graph.vertices[-1]
        return next(vertex for vertex in self._graph.vertices if any(each.name == which for each in vertex.operators))


def _transformation(operator: WrittenOperator, position: int, before: list[Transformation]) -> Transformation:
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
