"""Places of boxes on a page."""

from __future__ import annotations

from flykka.views.plan.page import layered


def test_a_box_follows_all_of_its_inputs() -> None:
    made = layered(["a", "b", "c", "u"], [("a", "b"), ("b", "u"), ("c", "u")])

    assert made.layers[0] == ("a", "c")
    assert made.layers[2] == ("u",)


def test_an_edge_over_layers_has_a_place_in_each() -> None:
    made = layered(["a", "b", "c", "u"], [("a", "b"), ("b", "c"), ("c", "u"), ("a", "u")])

    assert made.passed["a", "b"] == ()
    assert len(made.passed["a", "u"]) == 2
    assert all(place in layer for place, layer in zip(made.passed["a", "u"], made.layers[1:3], strict=True))


def test_boxes_are_in_the_order_of_their_inputs() -> None:
    made = layered(["a", "b", "x", "y"], [("b", "x"), ("a", "y")])

    assert made.layers == (("a", "b"), ("y", "x"))
