"""Positions of boxes on a page."""

from __future__ import annotations

from flykka.views.plan.page import layered


def test_a_box_is_placed_after_all_its_inputs() -> None:
    layers = layered(["a", "b", "c", "u"], [("a", "b"), ("b", "u"), ("c", "u")])

    assert layers.layers[0] == ("a", "c")
    assert layers.layers[2] == ("u",)


def test_an_edge_across_layers_has_a_position_in_each() -> None:
    layers = layered(["a", "b", "c", "u"], [("a", "b"), ("b", "c"), ("c", "u"), ("a", "u")])

    assert layers.passed["a", "b"] == ()
    assert len(layers.passed["a", "u"]) == 2
    assert all(place in layer for place, layer in zip(layers.passed["a", "u"], layers.layers[1:3], strict=True))


def test_boxes_are_in_the_order_of_their_inputs() -> None:
    layers = layered(["a", "b", "x", "y"], [("b", "x"), ("a", "y")])

    assert layers.layers == (("a", "b"), ("y", "x"))
