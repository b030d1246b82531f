"""The examples in docs/testing.md are extracted into a test suite, which must pass."""

from __future__ import annotations

import re

import pytest

from flykka.runtime import testing
from flykka.runtime.testing.probe import TestProbe
from tests.layout.sources import ROOT

pytest_plugins = "pytester"

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.M | re.S))


@pytest.mark.slow
def test_the_test_suite_in_the_page_passes(pytester: pytest.Pytester) -> None:
    assert PAGE.count("```python") == len(FILES)
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error"
    )
    for name, text in FILES.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    plugins = (
        () if pytester._request.config.pluginmanager.has_plugin("flykka") else ("-p", testing.__name__ + ".plugin")
    )

    result = pytester.runpytest_subprocess(*plugins, "--strict-markers", "-v")

    result.assert_outcomes(passed=2 + 1 + 20 + 1 + 1 + 1)
    result.stdout.fnmatch_lines(["test_transfer.py::test_nothing_is_lost[[]seed=13[]] PASSED*"])


def test_the_page_mentions_every_public_method_of_a_probe() -> None:
    public = [name for name in vars(TestProbe) if not name.startswith("_") and callable(getattr(TestProbe, name))]

    assert [name for name in public if f"{name}(" not in PAGE] == []
