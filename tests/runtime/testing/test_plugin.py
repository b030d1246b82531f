"""The pytest plugin provides systems as fixtures, and fails tests that leak actors."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from importlib import import_module
from textwrap import dedent

import pytest

from flykka.runtime import testing
from tests.layout.sources import ROOT

# Loaded here so that a pytest run within this run does not load them again: a message class can be declared only
# once.
LOADED = [getattr(testing, name) for name in testing.__all__]

PLUGIN = "flykka.runtime.testing.plugin"
pytest_plugins = "pytester"

# Each of these tests runs pytest itself.
pytestmark = pytest.mark.slow

IMPATIENT = ("-o", "flykka_end_timeout=0.1")

INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

HEAD = """
import asyncio, threading
import pytest
from flykka.runtime.errors import AskFailedError
from flykka.runtime.testing import TestProbe
from tests.runtime.scripted_actors import Say, fails, in_turn, scripted_actor, replies, says
"""


def run_with_plugin(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    """Run tests with the plugin, which an installed flykka loads automatically."""
    pytester.makeini(INI)
    pytester.makepyfile(HEAD + dedent(body))
    plugins = () if pytester._request.config.pluginmanager.has_plugin("flykka") else ("-p", PLUGIN)
    return pytester.runpytest_inprocess(*plugins, *options)


def test_a_fixture_provides_a_system_that_ends_with_the_test(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        lent = []

        def test_threads(actor_system):
            lent.append(actor_system)
            ref = actor_system.spawn(scripted_actor([], {"question": replies}), "a")
            assert ref.ask(says("question"), timeout=5) == says("reply")

        def test_virtual_time(seeded_system):
            lent.append(seeded_system)
            script = {"start": lambda c: c.timers.start_once("k", 3_600_000, says("x"))}
            seeded_system.spawn(scripted_actor([], script), "a")
            seeded_system.advance(3_600_000)
            assert seeded_system.manual_clock.now_ms() == 3_600_000

        def test_both_provided_systems_have_ended():
            assert [system.terminated.done() for system in lent] == [True, True]
        """,
    )

    result.assert_outcomes(passed=3)


def test_a_coroutine_test_awaits_asks(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        @pytest.mark.parametrize("lent", ["actor_system", "seeded_system"])
        async def test_ask(request, lent):
            system = request.getfixturevalue(lent)
            ref = system.spawn(scripted_actor([], {"question": replies}), "a")
            questions = [ref.ask(says("question"), block=False) for _ in range(3)]
            assert await asyncio.gather(*questions) == [says("reply")] * 3

        async def test_both(actor_system, seeded_system):
            for system in (actor_system, seeded_system):
                ref = system.spawn(scripted_actor([], {"question": replies}), "a")
                assert await ref.ask(says("question"), block=False) == says("reply")
            await asyncio.to_thread(lambda: None)
            await actor_system.terminate()
        """,
    )

    result.assert_outcomes(passed=3)


def test_an_actor_that_fails_unexpectedly_fails_the_test(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        @pytest.mark.parametrize("lent", ["actor_system", "seeded_system"])
        def test_ask(request, lent):
            system = request.getfixturevalue(lent)
            with pytest.raises(AskFailedError):
                system.spawn(scripted_actor([], {"fail": fails}), "a").ask(says("fail"), timeout=5)
        """,
    )

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*actors failed unexpectedly:",
            "*RuntimeError of /user/a#1: as scripted",
            "*with system.expect_failure(*",
        ]
    )


def test_an_actor_failing_during_teardown_is_an_error_of_the_test(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        def test_stop(seeded_system):
            seeded_system.spawn(scripted_actor([], {"stop": fails}), "a")
            seeded_system.run_until_idle()
        """,
    )

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*RuntimeError of /user/a#1: as scripted"])


def test_a_test_with_its_own_failure_is_reported_once(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        def test_ask(seeded_system):
            seeded_system.spawn(scripted_actor([], {"fail": fails}), "a").ask(says("fail"), timeout=5)
        """,
    )

    result.assert_outcomes(failed=1)
    assert "no one expected" not in result.stdout.str()


def test_an_expected_actor_failure_does_not_fail_the_test(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        @pytest.mark.parametrize("lent", ["actor_system", "seeded_system"])
        def test_tell(request, lent):
            system = request.getfixturevalue(lent)
            ref = system.spawn(scripted_actor([], {"fail": fails}), "a")
            with system.expect_failure():
                ref.tell(says("fail"))
            with system.expect_failure("RuntimeError", of="/user/a"), system.expect_failure(RuntimeError, of=ref):
                ref.tell(says("fail"))
                ref.tell(says("fail"))
            with system.expect_failure(RuntimeError, match="script", count=2) as expected:
                ref.tell(says("fail"))
                ref.tell(says("fail"))
            assert [failed.ref for failed in expected.failures] == [ref, ref]
        """,
    )

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("KeyError", "expected KeyError within 0.1 s; failures: RuntimeError of /user/a#1: as scripted"),
        ("RuntimeError, of='/user/b'", "expected RuntimeError of /user/b within 0.1 s; *"),
        ("match='other'", "expected a failure that matches 'other' within 0.1 s; *"),
        ("RuntimeError, count=2", "expected 2 x RuntimeError within 0.1 s; *"),
    ],
)
def test_an_expected_actor_failure_that_does_not_occur_fails_the_test(
    pytester: pytest.Pytester, expected: str, text: str
) -> None:
    result = run_with_plugin(
        pytester,
        f"""
        @pytest.mark.parametrize("lent", ["actor_system", "seeded_system"])
        def test_tell(request, lent):
            system = request.getfixturevalue(lent)
            ref = system.spawn(scripted_actor([], {{"fail": fails}}), "a")
            with system.expect_failure({expected}, timeout=0.1):
                ref.tell(says("fail"))
        """,
    )

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([f"E*AssertionError: {text}"])


def test_an_actor_that_outlives_the_test_is_named(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        free = threading.Event()

        def test_leak(actor_system):
            stuck = threading.Event()
            script = {"block": in_turn(lambda _: stuck.set(), lambda _: free.wait(30))}
            actor_system.spawn(scripted_actor([], script).with_dispatcher("pinned"), "a").tell(says("block"))
            assert stuck.wait(5)

        def test_the_next_test_is_not_affected(actor_system):
            free.set()
        """,
        *IMPATIENT,
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*actors outlive the test:", "*/user/a had not ended 0.1 s after it was asked to"])
    assert "threads outlive" not in result.stdout.str()


def test_a_coroutine_that_does_not_end_is_named(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        from flykka.runtime import Actor, Props

        class Stubborn(Actor):
            async def handle_message(self, message):
                try:
                    await asyncio.Event().wait()
                finally:
                    await self.context.sleep("1h")

        def test_leak(seeded_system):
            seeded_system.spawn(Props(Stubborn), "a").tell(says("x"))
            seeded_system.run_until_idle()
        """,
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    )

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*/user/a had not ended 2.0 s after it was asked to"])


def test_a_leaked_thread_is_reported_with_its_origin(pytester: pytest.Pytester) -> None:
    body = """
        def keep_busy(free):
            free.wait(30)

        def test_leak(seeded_system):
            free = threading.Event()
            seeded_system.add_delivery_hook(lambda *_: free)
            threading.Thread(target=keep_busy, args=(free,), name="mine", daemon=True).start()
        """

    result = run_with_plugin(pytester, body, *IMPATIENT)
    ignoring = run_with_plugin(pytester, body, "-o", "flykka_ignored_threads=mi*")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*threads outlive the test:", "mine, in keep_busy (*.py:*)"])
    ignoring.assert_outcomes(passed=1)


def test_an_unterminated_actor_system_is_reported_as_a_leak(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        from flykka.runtime import ActorSystem
        left = []

        def test_leak(seeded_system):
            left.append(ActorSystem("left"))

        def teardown_module():
            left[0].terminate().wait(5)
        """,
        *IMPATIENT,
    )

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["flykka-dispatcher-*"])


def test_a_test_runs_with_the_orders_of_several_seeds(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        seeds = []

        @pytest.mark.seeds(3)
        def test_many(seeded_system):
            seeds.append(seeded_system.seed)

        @pytest.mark.seeds([7, 11])
        def test_these(seeded_system):
            seeds.append(seeded_system.seed)

        def test_one(seeded_system):
            assert seeded_system.seed == 0
            assert seeds == [0, 1, 2, 7, 11]
        """,
        "-v",
        "--strict-markers",
    )

    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*::test_these[[]seed=11[]] PASSED*"])


@pytest.mark.parametrize(
    "test", ["@pytest.mark.seeds(3)\ndef test(): pass", "@pytest.mark.seeds()\ndef test(seeded_system): pass"]
)
def test_the_seeds_marker_is_refused_on_tests_without_a_seeded_system(pytester: pytest.Pytester, test: str) -> None:
    result = run_with_plugin(pytester, f"\n{test}\n")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker seeds(20) or seeds([[]3, 7[]]) is only for tests that use*"])


def test_a_suite_configures_its_systems_by_a_fixture(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(
        pytester,
        """
        @pytest.fixture
        def actor_system_options():
            return {"default_ask_timeout": 0.5, "serialize_messages": False}

        def test_options(actor_system, seeded_system):
            for system in (actor_system, seeded_system):
                assert (system.default_ask_timeout, system.serialize_messages) == (0.5, False)
        """,
    )

    result.assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_by_the_packages_entry_point() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")

    (line,) = setup["options.entry_points"]["pytest11"].split("\n")[1:]

    assert line == f"flykka = {PLUGIN}"
    assert callable(import_module(PLUGIN).pytest_runtest_call)


def test_an_installed_package_provides_its_fixtures_without_configuration(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = pytester.mkdir("site") / "flykka-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: flykka\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\nflykka = {PLUGIN}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed.parent), str(ROOT))))
    pytester.makeini(INI)
    pytester.makepyfile("def test_it(actor_system, seeded_system): pass")

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1)


def test_the_plugin_loads_no_expensive_modules_in_unrelated_runs() -> None:
    libraries = "{'msgpack', 'pykka', 'pyspark', 'rich'}"
    script = (
        f"import sys, {PLUGIN}; print(*sorted(m for m in sys.modules if m.startswith('flykka') or m in {libraries}))"
    )

    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == ["flykka", "flykka.runtime", "flykka.runtime.testing", PLUGIN]
