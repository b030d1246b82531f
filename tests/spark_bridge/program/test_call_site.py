"""Tests that an operator records the user's line."""

from __future__ import annotations

from inspect import currentframe

from flykka.api.streams.transformation import Transformation
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.stateless import SideOutputCode
from flykka.spark_bridge.operators.window import LATE_DATA
from flykka.spark_bridge.program.call_site import CallSite, call_site


def line() -> int:
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_call_site_is_the_current_line_of_the_user() -> None:
    here = call_site()

    assert (here.file, here.line) == (__file__, line() - 2)
    assert here.source == "here = call_site()"
    assert str(here) == f"{__file__}:{here.line}"


def test_frames_of_flykka_itself_are_skipped() -> None:
    code = SideOutputCode(tag=LATE_DATA)

    transformation = Transformation(kind=OperatorKind.STATELESS, position=1, name="m", code=code)

    assert transformation.call_site == CallSite(file=__file__, line=line() - 2)


def test_an_unreadable_line_is_empty() -> None:
    assert CallSite(file="<ipython-input-7>", line=3).source == ""


def test_the_registry_records_the_line_of_an_operator() -> None:
    registry = CodeRegistry()

    registry.bind("counts", KeyByCode(columns=()), call_site=CallSite(file="app.py", line=12))
    registry.bind("others", KeyByCode(columns=()))
    registry.bind("stateless-2", KeyByCode(columns=()), call_site=CallSite(file="app.py", line=7), name="where(n > 1)")

    assert registry.call_site("counts") == CallSite(file="app.py", line=12)
    assert registry.describe("counts") == "'counts' (app.py:12)"
    assert registry.describe("others") == "'others'"
    assert registry.describe("unknown") == "'unknown'"
    assert registry.describe("stateless-2") == "'where(n > 1)' (app.py:7)"
