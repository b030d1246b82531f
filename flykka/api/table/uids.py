"""Uids of the operators of SQL: made of what an operator is and of what it reads, and not of its place in the text.

Operators with state are called after their kind and the tables, views and operators with state that their rows come
from. So a condition, a column or a projection that is put in changes no uid, and a savepoint fits the query that was
changed. Of several that are alike each has a number, in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from flykka.messages.graph.job_graph import OperatorKind

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Transformation


def name_operators(
    program: Program, made: Iterable[Transformation], scope: str, streams: Mapping[str, DataStream]
) -> None:
    """Give uids to the operators of a statement, inputs before what they feed.

    `scope` is the table or view that it is for; `streams` are those that it reads, by their names.
    """
    taken = {each.uid for each in program.transformations}
    origins = {each.source: name for name, stream in streams.items() for each in stream.flow.inputs}
    for each in made:
        upstream = ",".join(dict.fromkeys(origins.get(read.source, read.source.uid) for read in each.inputs))
        if each.explicit_uid is None:
            kind = each.kind.lower().replace("_", "-")
            # What is staged for a table is the table's, whatever its rows come from.
            called = kind if each.kind is OperatorKind.SINK else f"{kind}({upstream})"
            program.set_uid(each, _free(f"{scope}.{called}", taken))
            taken.add(each.uid)
        is_stateless = each.kind is OperatorKind.STATELESS
        origins.setdefault(each, upstream if is_stateless else each.uid.removeprefix(f"{scope}."))


def _free(uid: str, taken: set[str]) -> str:
    return next(each for number in count(1) if (each := uid if number == 1 else f"{uid}-{number}") not in taken)
