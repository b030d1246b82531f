"""Between two versions of a program, values of a state may be added, removed or widened; other changes are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.keyed_state import StatePart, restored_keyed_state
from flykka.actors.machines.state.schema_evolution import (
    changes,
    columns_ddl,
    columns_of,
    has_changed,
    is_evolvable,
    is_same_or_wider,
    schema_mismatches,
)
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import JobVertex, OperatorKind
from flykka.messages.state.handles import OperatorStateMode, OperatorStateSchema, StateSchema, TaskStateSnapshot
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.state.test_assignment import chained_vertex, checkpoint_of_subtasks, keyed_state

TOTALS = StateSchema(keys="user string", columns="`sum(amount)` int, rows bigint", merged_by=("sum", "sum"))


def test_columns_are_parsed_from_their_text_form() -> None:
    columns = [("plain", "bigint"), ("sum(a, `b`)", "decimal(20,2)"), ("a``b", "map<string,struct<`x,y`:int,z:date>>")]

    assert list(columns_of(columns_ddl(columns)).items()) == columns


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("int", "int"),
        ("tinyint", "bigint"),
        ("int", "double"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("bigint", "decimal(38,0)"),
        ("tinyint", "decimal(5,2)"),
        ("array<int>", "array<bigint>"),
        ("map<string,float>", "map<string,double>"),
        ("struct<a:int,b:array<float>>", "struct<a:bigint,b:array<double>>"),
    ],
)
def test_a_wider_type_holds_every_value_of_the_narrower_one(was: str, now: str) -> None:
    assert is_same_or_wider(was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("bigint", "int"),
        ("bigint", "double"),
        ("int", "string"),
        ("double", "float"),
        ("decimal(10,2)", "decimal(10,4)"),
        ("bigint", "decimal(18,0)"),
        ("bigint", "decimal(19,1)"),
        ("array<int>", "map<int,int>"),
        ("map<int,string>", "map<bigint,string>"),
        ("struct<a:int>", "struct<b:int>"),
        ("struct<a:int>", "struct<a:int,b:int>"),
    ],
)
def test_a_type_that_cannot_hold_every_value_is_incompatible(was: str, now: str) -> None:
    assert not is_same_or_wider(was, now)


def test_new_widened_and_dropped_values_are_compatible_and_reported() -> None:
    now = replace(TOTALS, columns="`max(amount)` int, `sum(amount)` bigint", merged_by=("max", "sum"))

    assert schema_mismatches(TOTALS, now) == []
    assert changes(TOTALS, now) == [
        "max(amount) is new: null for existing keys",
        "sum(amount) is widened from int to bigint",
        "rows is dropped",
    ]


def test_an_incompatible_type_or_key_is_refused_with_both_types() -> None:
    now = StateSchema(keys="user bigint", columns="`sum(amount)` string, rows bigint", merged_by=("sum", "sum"))

    assert schema_mismatches(TOTALS, now) == [
        "keys: was `user string`, is `user bigint`",
        "sum(amount): its type was `int` and is `string`, which is not wider",
    ]


def test_keys_may_be_renamed_except_in_stored_rows() -> None:
    renamed = replace(TOTALS, keys="customer string")
    kept = StateSchema(keys="user string", columns="user string, amount int", windows="size=60000ms")

    assert schema_mismatches(TOTALS, renamed) == []
    assert schema_mismatches(kept, replace(kept, keys="city string")) == ["keys: was `user string`, is `city string`"]


def test_lists_of_a_function_may_only_be_added_removed_or_widened() -> None:
    def lists(*each: tuple[str, str, OperatorStateMode]) -> StateSchema:
        made = (OperatorStateSchema(name=name, element=element, mode=mode) for name, element, mode in each)
        return StateSchema(operator_state=tuple(made))

    split, union = OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION
    was = lists(("gone", "int", split), ("wider", "int", split), ("other", "int", split), ("mode", "int", split))
    now = lists(("wider", "bigint", split), ("other", "string", split), ("mode", "int", union), ("new", "date", split))

    assert schema_mismatches(was, now) == [
        "operator state other: its type was `int` and is `string`, which is not wider",
        "operator state mode: was SPLIT_DISTRIBUTE, is UNION",
    ]


def test_values_without_names_are_not_matched_by_name() -> None:
    unnamed = StateSchema(keys="user string", columns="sum int, rows bigint")

    assert not is_evolvable(unnamed, TOTALS)
    assert not has_changed(unnamed, TOTALS)


def counts(schema: StateSchema) -> JobVertex:
    plain = chained_vertex("v", "counts")
    return replace(plain, operators=(replace(plain.operators[0], state_schema=schema),))


def checkpoint_with_schema(schema: StateSchema) -> CompletedCheckpoint:
    (operator,) = chained_vertex("v", "counts").operators
    noted = OperatorMetadata(
        operator_id=operator.operator_id,
        ref=operator.ref,
        name="counts",
        kind=OperatorKind.GROUP_AGGREGATE,
        parallelism=1,
        max_parallelism=128,
        state_schema=schema,
    )
    return replace(
        checkpoint_of_subtasks((keyed_state("counts", "s1"),), (keyed_state("counts", "s2", subtask=1),)),
        operators=(noted,),
    )


def part_of(snapshot: TaskStateSnapshot) -> StatePart:
    states = [
        replace(
            state, keyed_state=b"", shared=tuple(replace(each, key_groups=state.key_groups) for each in state.shared)
        )
        for state in snapshot.operators
    ]
    [(part,)] = restored_keyed_state(states).parts.values()
    return part


def test_state_of_an_older_schema_is_assigned_and_rewritten() -> None:
    wider = replace(TOTALS, columns="`sum(amount)` bigint, rows bigint")

    same = assign(checkpoint_with_schema(TOTALS), [counts(TOTALS)]).states[JobVertexId("v"), 0]
    changed = assign(checkpoint_with_schema(TOTALS), [counts(wider)]).states[JobVertexId("v"), 0]

    as_it_was, to_be_read = part_of(same), part_of(changed)
    assert (as_it_was.written_as, to_be_read.written_as) == (None, TOTALS)
    assert as_it_was.written is not None
    assert to_be_read.written is None
