"""THE FRONT DOOR: Flink-style jobs as Pykka actors, with their data on Spark.

The public names are found here and loaded when they are first used: `import flykka` loads neither actors nor pyspark.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.actors.master_hooks import MasterTriggerRestoreHook as MasterTriggerRestoreHook
    from flykka.console.event_lines import Console as Console
    from flykka.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
    from flykka.high_availability.settings import ZooKeeperSettings as ZooKeeperSettings
    from flykka.jobs.job_client import JobClient as JobClient
    from flykka.jobs.job_execution_result import JobExecutionResult as JobExecutionResult
    from flykka.local_cluster import LocalCluster as LocalCluster
    from flykka.messages.job import JobStatus as JobStatus
    from flykka.messages.job_graph import CheckpointingMode as CheckpointingMode
    from flykka.messages.job_graph import ExternalizedCheckpointRetention as ExternalizedCheckpointRetention
    from flykka.messages.job_graph import MonotonyViolationHandler as MonotonyViolationHandler
    from flykka.monitors.monitor import Violation as Violation
    from flykka.monitors.monitors import all_monitors as all_monitors
    from flykka.monitors.recorder import MonitoringRecorder as MonitoringRecorder
    from flykka.replay.replayer import Replayer as Replayer
    from flykka.restart_strategies import RestartStrategies as RestartStrategies
    from flykka.runtime.trace.recorder import TraceRecorder as TraceRecorder
    from flykka.runtime.trace.replay.divergence import DivergenceError as DivergenceError
    from flykka.runtime_mode import RuntimeExecutionMode as RuntimeExecutionMode
    from flykka.simulation.outcome import SimulationOutcome as SimulationOutcome
    from flykka.simulation.settings import FaultKind as FaultKind
    from flykka.simulation.settings import SimulationSettings as SimulationSettings
    from flykka.simulation.simulation import simulate as simulate
    from flykka.spark_bridge.accumulators import DoubleCounter as DoubleCounter
    from flykka.spark_bridge.accumulators import Histogram as Histogram
    from flykka.spark_bridge.accumulators import IntCounter as IntCounter
    from flykka.spark_bridge.accumulators import LongCounter as LongCounter
    from flykka.spark_bridge.rich_function import RichFunction as RichFunction
    from flykka.spark_bridge.rich_function import RuntimeContext as RuntimeContext
    from flykka.spark_bridge.sinks.console_sink import ConsoleSink as ConsoleSink
    from flykka.spark_bridge.sinks.file_sink import FileSink as FileSink
    from flykka.spark_bridge.sinks.foreach_batch_sink import ForeachBatchSink as ForeachBatchSink
    from flykka.spark_bridge.sources.datagen_source import DataGenSource as DataGenSource
    from flykka.spark_bridge.sources.file_source import FileSource as FileSource
    from flykka.streams.data_stream import DataStream as DataStream
    from flykka.streams.data_stream import KeyedStream as KeyedStream
    from flykka.streams.data_stream import WindowedStream as WindowedStream
    from flykka.streams.output_tag import OutputTag as OutputTag
    from flykka.streams.watermark_strategy import WatermarkStrategy as WatermarkStrategy
    from flykka.streams.windows import SlidingEventTimeWindows as SlidingEventTimeWindows
    from flykka.streams.windows import TumblingEventTimeWindows as TumblingEventTimeWindows
    from flykka.traces.trace import Trace as Trace

_MODULES = {
    "CheckpointingMode": "messages.job_graph",
    "Console": "console.event_lines",
    "ConsoleSink": "spark_bridge.sinks.console_sink",
    "DataGenSource": "spark_bridge.sources.datagen_source",
    "DataStream": "streams.data_stream",
    "DivergenceError": "runtime.trace.replay.divergence",
    "DoubleCounter": "spark_bridge.accumulators",
    "ExternalizedCheckpointRetention": "messages.job_graph",
    "FaultKind": "simulation.settings",
    "FileSink": "spark_bridge.sinks.file_sink",
    "FileSource": "spark_bridge.sources.file_source",
    "ForeachBatchSink": "spark_bridge.sinks.foreach_batch_sink",
    "Histogram": "spark_bridge.accumulators",
    "IntCounter": "spark_bridge.accumulators",
    "JobClient": "jobs.job_client",
    "JobExecutionResult": "jobs.job_execution_result",
    "JobStatus": "messages.job",
    "KeyedStream": "streams.data_stream",
    "LocalCluster": "local_cluster",
    "LongCounter": "spark_bridge.accumulators",
    "MasterTriggerRestoreHook": "actors.master_hooks",
    "MonitoringRecorder": "monitors.recorder",
    "MonotonyViolationHandler": "messages.job_graph",
    "OutputTag": "streams.output_tag",
    "Replayer": "replay.replayer",
    "RestartStrategies": "restart_strategies",
    "RuntimeExecutionMode": "runtime_mode",
    "RichFunction": "spark_bridge.rich_function",
    "RuntimeContext": "spark_bridge.rich_function",
    "SimulationOutcome": "simulation.outcome",
    "SimulationSettings": "simulation.settings",
    "SlidingEventTimeWindows": "streams.windows",
    "StreamExecutionEnvironment": "environment",
    "Trace": "traces.trace",
    "TraceRecorder": "runtime.trace.recorder",
    "TumblingEventTimeWindows": "streams.windows",
    "Violation": "monitors.monitor",
    "WatermarkStrategy": "streams.watermark_strategy",
    "WindowedStream": "streams.data_stream",
    "ZooKeeperSettings": "high_availability.settings",
    "all_monitors": "monitors.monitors",
    "simulate": "simulation.simulation",
}

__all__ = sorted(_MODULES)


# Type checkers are not told of it: they would let every name pass.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise _no_such_name(name)
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def _no_such_name(name: str) -> AttributeError | ImportError:
    from flykka.names_elsewhere import import_hint

    if (hint := import_hint(name)) is None:
        return AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # `from flykka import ...` looks whether the name is there, and would drop the text of an AttributeError.
    if sys._getframe(2).f_code.co_name == "_handle_fromlist":
        return ImportError(f"cannot import name {name!r} from {__name__!r}: {hint}", name=__name__)
    return AttributeError(f"module {__name__!r} has no attribute {name!r}: {hint}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


# Objects of the rooms below are shown as well as our own: all of flykka is loaded through here.
if "IPython" in sys.modules:
    import_module(f"{__name__}.notebook.trace_displays").register_displays()
