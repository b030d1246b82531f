"""Aligned sources in a whole cluster: the state of a join stays small even if one side could run far ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.joins.interval_segments import Interval, IntervalSegments
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
    ShipStrategy,
    WatermarkAlignment,
)
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.operators import Behaviour, Join, Program, Sink, Source
from flykka.simulation.scenario import JobPlan, Scenario
from flykka.simulation.simulation import run
from flykka.simulation.topology import Topology
from tests.actors.machines.graph.graphs import vertex

pytestmark = pytest.mark.slow

ALIGNMENT = WatermarkAlignment(group="g", max_drift_ms=10, update_interval_ms=10)
ROWS = 200


def source_of(number: int, step_ms: int) -> Source:
    return Source(
        number=number,
        rows=ROWS,
        keys=1,
        step_ms=step_ms,
        disorder_ms=0,
        rows_per_split=2,
        splits_per_look=100,
        interval_ms=50,
    )


def chain(name: str, kinds: dict[str, OperatorKind], *reads: str, **fields: Any) -> JobVertex:
    operators = tuple(
        Operator(
            operator_id=OperatorId(uid),
            ref=OperatorRef(uid=uid, fingerprint=""),
            name=uid,
            kind=kind,
            input_operator=place - 1 if place else None,
        )
        for place, (uid, kind) in enumerate(kinds.items())
    )
    made = vertex(name, reads=reads, ship_strategy=ShipStrategy.HASH)
    return replace(made, operators=operators, **fields)


def join_scenario(alignment: WatermarkAlignment | None) -> Scenario:
    """Return a join of two sources; the rows of one source are a thousand times further apart in event time."""
    behaviours: dict[str, Behaviour] = {
        "slow": source_of(0, 1),
        "fast": source_of(1, 1_000),
        "join": Join(left_inputs=1, bounds=Interval(lower_ms=0, upper_ms=10)),
        "sink": Sink(name="sink"),
    }
    sources = (
        chain(
            name,
            {name: OperatorKind.SOURCE},
            outputs=(OperatorId(name),),
            watermark_delay_ms=0,
            watermark_alignment=alignment,
        )
        for name in ("slow", "fast")
    )
    join = chain("join", {"join": OperatorKind.JOIN, "sink": OperatorKind.SINK}, "slow", "fast")
    topology = Topology(vertices=(*sources, join), program=Program(behaviours=behaviours))
    checkpointing = CheckpointingSettings(directory="checkpoints", interval_ms=100)
    return Scenario(seed=1, topology=topology, jobs=(JobPlan(checkpointing=checkpointing),))


@pytest.mark.parametrize("alignment", [ALIGNMENT, None], ids=["aligned", "free"])
def test_a_join_retains_few_rows_of_an_aligned_source(
    alignment: WatermarkAlignment | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    add = IntervalSegments.add

    def record_size(segments: IntervalSegments[Any], segment: Any) -> None:
        add(segments, segment)
        kept.append(sum(each.rows for each in segments.live))

    monkeypatch.setattr(IntervalSegments, "add", record_size)

    outcome = run(join_scenario(alignment))

    assert (outcome.violations, outcome.jobs) == ((), ("FINISHED",))
    assert outcome.rows > 0
    assert max(kept) <= 40 if alignment is not None else max(kept) >= ROWS * 3 // 4
