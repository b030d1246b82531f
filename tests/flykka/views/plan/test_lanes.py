"""Graphs as text lanes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.views.plan.terminal import NODE, lane_rows


def picture(nodes: str, *edges: str) -> list[str]:
    return [row.lanes for row in lane_rows(nodes, [(edge[0], edge[1]) for edge in edges])]


def test_a_line_of_operators_is_one_lane() -> None:
    assert picture("abc", "ab", "bc") == ["●", "│", "●", "│", "●"]


def test_a_node_read_twice_splits_lanes_that_merge_again() -> None:
    assert picture("abcd", "ab", "ac", "bd", "cd") == ["●", "├─╮", "│ │", "● │", "│ │", "│ ●", "│ │", "├─╯", "●"]


def test_three_sources_of_a_union_merge_at_once() -> None:
    assert picture("abcu", "au", "bu", "cu")[-2:] == ["├─┴─╯", "●"]


def test_a_freed_lane_stays_empty_and_a_crossed_one_continues() -> None:
    freed = picture("abcde", "ad", "bc", "be", "de")
    crossed = picture("abcdef", "ae", "bf", "ac", "cd")

    assert [row for row in freed if NODE in row] == ["●", "│ ●", "│ ● │", "●   │", "●"]
    assert crossed[:2] == ["●", "├─╮"]


def test_continuing_lanes_are_drawn_beside_further_lines_of_a_node() -> None:
    rows = list(lane_rows("ab", [("a", "b")]))

    assert [(row.node, row.more) for row in rows if row.node] == [("a", "│"), ("b", "")]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    size = draw(st.integers(1, 9))
    nodes = [f"n{number}" for number in range(size)]
    pairs = [(nodes[a], nodes[b]) for a in range(size) for b in range(a + 1, size)]
    return nodes, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@pytest.mark.slow
@given(graph=graphs())
def test_every_node_is_drawn_once_and_no_lane_remains(graph: tuple[list[str], list[tuple[str, str]]]) -> None:
    nodes, edges = graph

    rows = list(lane_rows(nodes, edges))

    assert [row.node for row in rows if row.node] == nodes
    assert all(row.lanes.count(NODE) == (1 if row.node else 0) for row in rows)
    assert rows[-1].node == nodes[-1]
    assert not any(row.lanes.endswith(" ") for row in rows)
