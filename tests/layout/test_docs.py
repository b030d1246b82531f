"""The docs agree with the product: every option is documented, every link resolves, all Python code compiles."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import flykka
from flykka import datagen
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.api.configuration.options import OPTIONS as CONFIG_OPTIONS
from flykka.cli.main import main
from flykka.errors import DurationError
from flykka.runtime.durations import duration_ms
from flykka.spark_bridge.connectors.transactional import TransactionalSink
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.program.source import Source
from tests.layout.sources import PRODUCT, ROOT

pytestmark = pytest.mark.slow

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

MADE_BY_THEIR_NAMES = (
    "DataGenSource",
    "SocketTextSource",
    "ForeachBatchSink",
    "ConsoleSink",
    "OutputTag",
    "ValueStateDescriptor",
)
FOR_USERS = (
    *MADE_BY_THEIR_NAMES,
    "DataStream",
    "CachedDataStream",
    "KeyedStream",
    "WindowedStream",
    "StreamExecutionEnvironment",
    "JobClient",
    "LocalCluster",
    "FileSource",
    "FileSink",
    "KafkaSource",
    "KafkaSink",
    "DeltaSource",
    "DeltaSink",
    "IcebergSink",
    "PostgresSink",
    "PostgresCdcSource",
    "WatermarkStrategy",
    "RestartStrategies",
    "TumblingEventTimeWindows",
    "SlidingEventTimeWindows",
    "RichFunction",
    "RuntimeContext",
    "ProcessFunction",
    "KeyedProcessFunction",
    "FunctionContext",
    "KeyedContext",
    "TimerContext",
    "ConnectedStreams",
    "BroadcastConnectedStream",
    "CoProcessFunction",
    "KeyedCoProcessFunction",
    "CoMapFunction",
    "CoFlatMapFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
    "ReadOnlyContext",
    "KeyedReadOnlyContext",
    "ReadOnlyTimerContext",
    "BroadcastContext",
    "KeyedBroadcastContext",
    "ReadOnlyBroadcastState",
    "FunctionRuntimeContext",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "AggregatingStateDescriptor",
    "ReduceFunction",
    "AggregateFunction",
)
FOR_THE_RUNTIME = {
    *(name for kind in (Source, Sink, TransactionalSink, EventTimeWindows, WindowAssigner) for name in dir(kind)),
    # Only needed to start a cluster without an environment.
    *("submit", "shutdown", "system", "restart_strategy", "resolved_restart_strategy", "sql_state_ttl_ms"),
    # Only needed by the runners of functions.
    *("ensure_in_use", "release", "column_type", "touched_type", "is_same_as"),
    # Operators that call user functions register their states with these.
    *("get_any_state", "get_namespaced_state"),
}


def code_in(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`([^`\n]+)`", FENCED.sub("", text))
    return "\n".join([*spans, *(code for _, code in FENCED.findall(text))])


PAGE = ROOT / "docs" / "options.md"
OPTIONS = code_in(PAGE)


def is_named(name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", OPTIONS) is not None


def public_methods(owner: type) -> list[str]:
    """Return methods and properties, without the fields of frozen values, which the methods set."""
    members = {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}
    return [
        name
        for name, member in members.items()
        if (callable(member) or isinstance(member, property)) and name not in FOR_THE_RUNTIME
    ]


def optional_arguments(called: Callable[..., object]) -> list[str]:
    arguments = inspect.signature(called).parameters.values()
    return [each.name for each in arguments if each.default is not each.empty and not each.name.startswith("_")]


def says(cell: str, value: int | str) -> bool:
    """Return whether a cell states this default; a duration may be in any unit."""
    if cell == str(value):
        return True
    try:
        return duration_ms(cell) == value
    except DurationError:
        return False


@pytest.mark.parametrize("name", flykka.__all__)
def test_every_public_name_is_among_the_options(name: str) -> None:
    assert is_named(name)


@pytest.mark.parametrize("owner", FOR_USERS)
def test_every_method_and_argument_with_a_default_is_documented_as_an_option(owner: str) -> None:
    kind = getattr(flykka, owner)

    methods = public_methods(kind)
    called = [kind] if owner in MADE_BY_THEIR_NAMES else []
    called += [getattr(kind, name) for name in methods if inspect.isroutine(getattr(kind, name))]
    arguments = {argument for each in called for argument in optional_arguments(each)}

    assert [name for name in sorted({*methods, *arguments}) if not is_named(name)] == []


@pytest.mark.parametrize(
    "called",
    [
        flykka.StreamExecutionEnvironment.get_execution_environment,
        flykka.StreamExecutionEnvironment.enable_checkpointing,
        flykka.DataGenSource,
    ],
    ids=lambda called: called.__name__,
)
def test_documented_defaults_are_the_effective_ones(called: Callable[..., object]) -> None:
    documented = {
        name: {cell.strip().strip('`"') for cell in cells.split("|")}
        for name, cells in re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.M)
    }

    parameters = inspect.signature(called).parameters.values()
    values = {each.name: each.default for each in parameters if isinstance(each.default, int | str)}

    assert [name for name, value in values.items() if not any(says(cell, value) for cell in documented[name])] == []


@pytest.mark.parametrize("name", [name for name in datagen.__all__ if name != "FieldGenerator"])
def test_every_field_generator_is_in_the_options_page(name: str) -> None:
    assert is_named(name)


COMMANDS = ["run", "plan", "replay", "debug", "whatif", "simulate", "shrink"]
OF_TRACES = ["show", "stats", "story", "diagram", "diff", "check"]


@pytest.mark.parametrize(
    "command", [[], *([each] for each in COMMANDS), *(["trace", each] for each in OF_TRACES)], ids=str
)
def test_every_command_line_option_is_in_the_options_page(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command, "--help"])

    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", capsys.readouterr().out, re.M))
    assert "--help" in options
    named = {option.flag for option in CONFIG_OPTIONS.values()}
    assert [option for option in sorted(options - named) if not is_named(option)] == []


def test_the_table_of_options_matches_the_product() -> None:
    rows = [
        tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row))
        for row in re.findall(r"^\| (`\w+` \| .+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    ]

    missing = [
        option.name
        for option in CONFIG_OPTIONS.values()
        if not any(
            row[:4] == (f"`{option.name}`", option.form.shape, option.meaning.default, option.meaning.description)
            for row in rows
        )
    ]
    assert missing == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_resolves(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    broken = []

    for link in LINK.findall(text):
        address, _, anchor = link.partition("#")
        target = page.parent / address if address else page
        if "://" in address:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_compiles(page: Path) -> None:
    for language, code in FENCED.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            # A notebook cell may use await.
            compile(code, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_job_of_the_tutorial_equals_the_example() -> None:
    example = {line.strip() for line in (ROOT / "examples" / "orders.py").read_text(encoding="utf-8").splitlines()}
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (job, *_) = (code for language, code in FENCED.findall(tutorial) if language == "python")

    assert [line for line in job.splitlines() if line.strip() not in example] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_product_file_named_in_the_docs_exists(page: Path) -> None:
    named = {name for name in re.findall(r"`([\w./]+/[\w.]+\.py)`", page.read_text()) if name.split("/")[0] in PRODUCT}

    assert sorted(name for name in named if not (ROOT / name).exists()) == []


JOURNEYS = ("A batch", "A checkpoint", "`.process(f)`", "A SQL text")
DEFINITION = re.compile(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)")


@pytest.mark.parametrize("journey", JOURNEYS)
def test_every_step_of_a_journey_names_a_definition_in_its_file(journey: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split(f"## {journey}\n")[1].split("\n## ")[0]
    steps = re.split(r"^\d\. ", section, flags=re.M)[1:]

    assert all(DEFINITION.search(step) for step in steps)
    assert [(name, file) for name, file in DEFINITION.findall(text) if not is_defined(name, ROOT / file)] == []


def is_defined(name: str, file: Path) -> bool:
    """Return whether a module has this class or function, or a class this method."""
    body = ast.parse(file.read_text(encoding="utf-8")).body if file.exists() else []
    for part in name.split("."):
        found = [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == part]
        if not found:
            return False
        body = found[-1].body
    return True
