"""Tests a function of tables: its arguments, the use of its results, and the errors for wrong results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, POSITION
from flykka.spark_bridge.worker.table_function import FireTableTimers, Frames, ProcessTable, TableSpec

STATE = pa.schema([("n", pa.int64()), ("last", pa.string())])
OUTPUT = pa.schema([("user", pa.int64()), ("n", pa.int64())])
USERS = [7, None, 3, 7]
TEXTS = ["a", "b", "c", "d"]


def process(
    function: Callable[[Any, Any], Any], *, frames: Frames = Frames.ARROW, counts: tuple[int | None, ...] = (None,) * 3
) -> Processed:
    """Process four rows of three keys with these counts, in the order of their positions: 3, 7, null."""
    batch = KeyedBatch(
        pa.table(
            {
                "user": pa.array(USERS, pa.int64()),
                "text": TEXTS,
                "__key_0": pa.array(USERS, pa.int64()),
                "__key_1": pa.array([f"shop {user}" for user in USERS]),
                POSITION: pa.array([100 if user is None else user for user in USERS], pa.int64()),
            }
        )
    )
    texts = [None if count is None else "before" for count in counts]
    state = pa.table([pa.array(counts, pa.int64()), pa.array(texts, pa.string())], schema=STATE)
    spec = TableSpec(
        pickled=cloudpickle.dumps(function),
        frames=frames,
        keys=("user", "shop"),
        columns=("user", "text"),
        emitted=OUTPUT,
    )
    return ProcessTable(spec=spec).process(batch, state)


def count_per_key(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Count the rows of each key, and return the columns in a different order."""
    new = rows.group_by("shop").aggregate([("text", "count"), ("text", "max")])
    new = new.take(pc.index_in(state["shop"], value_set=new["shop"]))
    n = pc.add(pc.fill_null(state["n"], 0), new["text_count"])
    kept = pa.table({"n": n, "last": new["text_max"], "shop": state["shop"], "user": state["user"]})
    return kept.select(["n", "user"]), kept


def test_a_function_receives_rows_with_keys_and_each_keys_state_once() -> None:
    def looked_at(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, None]:
        assert rows.column_names == ["user", "text", "shop"]
        assert state.column_names == ["user", "shop", "n", "last"]
        assert rows["text"].to_pylist() == ["c", "a", "d", "b"]
        return pa.table({"user": state["user"], "n": state["n"]}), None

    processed = process(looked_at, counts=(5, None, 6))

    assert processed.rows.to_pylist() == [{"user": 3, "n": 5}, {"user": 7, "n": None}, {"user": None, "n": 6}]
    assert processed.changed is not None
    assert processed.changed.tolist() == []


def test_state_is_matched_by_key_at_any_position() -> None:
    def reverse(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        output, kept = count_per_key(rows, state)
        return output, kept.take(list(range(kept.num_rows))[::-1])

    straight, reversed_ = process(count_per_key, counts=(5, None, None)), process(reverse, counts=(5, None, None))

    assert straight.state == reversed_.state
    assert straight.changed is not None
    assert reversed_.changed is not None
    assert np.array_equal(straight.changed, reversed_.changed)
    assert sum(straight.state["n"].to_pylist()) == 4 + 5


def test_omitted_keys_are_unchanged_and_null_states_are_deleted() -> None:
    def first_two(rows: pa.Table, state: pa.Table) -> tuple[None, pa.Table]:
        return None, state.slice(0, 2)

    processed = process(first_two, counts=(5, None, 6))

    assert processed.changed is not None
    assert processed.deleted is not None
    assert processed.changed.tolist() == [0, 1]
    assert processed.deleted.tolist() == [False, True]
    assert processed.state["n"].to_pylist() == [5, None]


def test_pandas_frames_keep_integers_in_both_directions() -> None:
    large = 2**60 + 1

    def count_rows(rows: Any, state: Any) -> tuple[Any, Any]:
        assert str(state["n"].dtype) == "Int64"
        return rows[["user"]].assign(n=1), state.assign(n=state["n"] + 1)

    processed = process(count_rows, frames=Frames.PANDAS, counts=(large, None, 6))

    assert processed.state["n"].to_pylist() == [large + 1, None, 7]
    assert processed.rows.schema == OUTPUT
    assert sorted(processed.rows["user"].to_pylist(), key=str) == sorted(USERS, key=str)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(lambda rows, state: rows, "must return two tables, its output and the new state", id="one table"),
        pytest.param(lambda rows, state: ([1], state), r"its output as a pyarrow.Table, .*, not \[1\]", id="a list"),
        pytest.param(
            lambda rows, state: (rows, None),
            r"the output .* has the wrong columns \(missing: n; not declared: text, shop\)",
            id="other columns",
        ),
        pytest.param(
            lambda rows, state: (None, state.select(["user", "n", "last"])),
            r"the state .* has the wrong columns \(missing: shop\)",
            id="no key",
        ),
        pytest.param(
            lambda rows, state: (None, state.set_column(2, "n", pa.array(["many"] * 3))),
            r"the state .* has the column 'n' of type string, which must be of type int64: .*'many'",
            id="another type",
        ),
        pytest.param(
            lambda rows, state: (None, pa.concat_tables([state, state])),
            r"two rows of state of the key user=\d+|None, shop='shop",
            id="a key twice",
        ),
        pytest.param(
            lambda rows, state: (None, state.set_column(0, "user", pa.array([8, 9, 10]))),
            r"state of a key that it did not receive, user=8, shop='shop",
            id="a foreign key",
        ),
    ],
)
def test_an_invalid_result_is_refused_with_the_reason(function: Callable[[Any, Any], Any], text: str) -> None:
    with pytest.raises(FunctionOutputError, match=text):
        process(function, counts=(1, 2, 3))


TIMED = pa.schema([("n", pa.int64()), ("due", pa.timestamp("us", "UTC")), (NEXT_EVENT_TIMER, pa.int64())])


def fire(function: Callable[[Any], Any], timers_us: list[int | None], *, due_ms: int) -> Processed:
    """Fire timers of keys 0, 1, ...; the counts are multiples of ten."""
    keys = pa.array(range(len(timers_us)), pa.int64())
    next_ms = pa.array([None if timer is None else -(-timer // 1000) for timer in timers_us], pa.int64())
    timers = pa.array(timers_us, pa.int64()).cast(TIMED.field("due").type)
    state = pa.table([pa.array([10 * key for key in range(len(timers_us))], pa.int64()), timers, next_ms], schema=TIMED)
    spec = TableSpec(
        pickled=cloudpickle.dumps(function),
        frames=Frames.ARROW,
        keys=("user",),
        columns=("user",),
        emitted=OUTPUT,
        timer="due",
    )
    return FireTableTimers(spec=spec, due_ms=due_ms).process(
        KeyedBatch(pa.table({"__key_0": keys, POSITION: keys})), state
    )


def test_due_timers_fire_and_their_keys_keep_other_timers() -> None:
    processed = fire(lambda state: (state.select(["user", "n"]), None), [3000, 3001, None, 1], due_ms=3)

    assert processed.rows.to_pylist() == [{"user": 0, "n": 0}, {"user": 3, "n": 30}]
    assert processed.changed is not None
    assert processed.changed.tolist() == [0, 3]
    assert processed.state.to_pylist() == [{"n": n, "due": None, NEXT_EVENT_TIMER: None} for n in (0, 30)]


def test_a_timer_function_may_set_timers_and_delete_state() -> None:
    def again(state: pa.Table) -> tuple[None, pa.Table]:
        due = pa.array([4001, None], TIMED.field("due").type)
        return None, pa.table({"user": state["user"].take([1, 0]), "n": pa.array([7, None], pa.int64()), "due": due})

    processed = fire(again, [1000, 2000], due_ms=3)

    assert processed.deleted is not None
    assert processed.deleted.tolist() == [True, False]
    assert [row["n"] for row in processed.state.to_pylist()] == [None, 7]
    assert processed.state[NEXT_EVENT_TIMER].to_pylist() == [None, 5]


def test_all_timers_fire_at_the_end_of_the_data() -> None:
    processed = fire(lambda state: (state.select(["user", "n"]), None), [3000, None, 1 << 62], due_ms=WATERMARK_MAX)

    assert [row["user"] for row in processed.rows.to_pylist()] == [0, 2]
    assert processed.state[NEXT_EVENT_TIMER].to_pylist() == [None, None]


def test_no_function_is_called_if_no_timer_is_due() -> None:
    processed = fire(lambda state: 1 / 0, [3001, None], due_ms=3)

    assert processed.rows.num_rows == 0
    assert processed.changed is not None
    assert processed.changed.tolist() == []
