"""The public names of flykka. Each is loaded when it is first used (`flykka.runtime.lazy_names`)."""

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook as MasterTriggerRestoreHook
from flykka.actors.failure_enrichers import FailureContext as FailureContext
from flykka.actors.failure_enrichers import FailureEnricher as FailureEnricher
from flykka.actors.failure_enrichers import FailureType as FailureType
from flykka.api.configuration.restart_strategies import RestartStrategies as RestartStrategies
from flykka.api.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from flykka.api.runtime_mode import RuntimeExecutionMode as RuntimeExecutionMode
from flykka.api.streams.connected_streams import BroadcastConnectedStream as BroadcastConnectedStream
from flykka.api.streams.connected_streams import BroadcastStream as BroadcastStream
from flykka.api.streams.connected_streams import ConnectedStreams as ConnectedStreams
from flykka.api.streams.data_stream import CachedDataStream as CachedDataStream
from flykka.api.streams.data_stream import DataStream as DataStream
from flykka.api.streams.keyed_stream import KeyedStream as KeyedStream
from flykka.api.streams.side_outputs import OutputTag as OutputTag
from flykka.api.streams.watermark_strategy import WatermarkStrategy as WatermarkStrategy
from flykka.api.streams.windowed_stream import AllWindowedStream as AllWindowedStream
from flykka.api.streams.windowed_stream import WindowedStream as WindowedStream
from flykka.client.job_client import JobClient as JobClient
from flykka.client.job_execution_result import JobExecutionResult as JobExecutionResult
from flykka.cluster.high_availability.settings import ZooKeeperSettings as ZooKeeperSettings
from flykka.cluster.local_cluster import LocalCluster as LocalCluster
from flykka.console.event_lines import Console as Console
from flykka.messages.control.job import JobStatus as JobStatus
from flykka.messages.control.job import ListeningBehaviour as ListeningBehaviour
from flykka.messages.graph.job_graph import CheckpointFailureReason as CheckpointFailureReason
from flykka.messages.graph.job_graph import CheckpointingMode as CheckpointingMode
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention as ExternalizedCheckpointRetention
from flykka.messages.graph.job_graph import MonotonyViolationHandler as MonotonyViolationHandler
from flykka.monitors.monitor import Violation as Violation
from flykka.monitors.monitors import all_monitors as all_monitors
from flykka.monitors.recorder import MonitoringRecorder as MonitoringRecorder
from flykka.replay.replayer import Replayer as Replayer
from flykka.runtime.replay.divergence import DivergenceError as DivergenceError
from flykka.runtime.trace.record.recorder import TraceRecorder as TraceRecorder
from flykka.simulation.outcome import SimulationOutcome as SimulationOutcome
from flykka.simulation.settings import FaultKind as FaultKind
from flykka.simulation.settings import SimulationSettings as SimulationSettings
from flykka.simulation.simulation import simulate as simulate
from flykka.spark_bridge.connectors.console import ConsoleSink as ConsoleSink
from flykka.spark_bridge.connectors.datagen import DataGenSource as DataGenSource
from flykka.spark_bridge.connectors.delta.sink import DeltaSink as DeltaSink
from flykka.spark_bridge.connectors.delta.source import DeltaSource as DeltaSource
from flykka.spark_bridge.connectors.file.sink import FileSink as FileSink
from flykka.spark_bridge.connectors.file.source import FileSource as FileSource
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink as ForeachBatchSink
from flykka.spark_bridge.connectors.iceberg import IcebergSink as IcebergSink
from flykka.spark_bridge.connectors.kafka.avro import AvroFormat as AvroFormat
from flykka.spark_bridge.connectors.kafka.formats import CsvFormat as CsvFormat
from flykka.spark_bridge.connectors.kafka.formats import DebeziumJsonFormat as DebeziumJsonFormat
from flykka.spark_bridge.connectors.kafka.formats import JsonFormat as JsonFormat
from flykka.spark_bridge.connectors.kafka.formats import RawFormat as RawFormat
from flykka.spark_bridge.connectors.kafka.offsets import OffsetResetStrategy as OffsetResetStrategy
from flykka.spark_bridge.connectors.kafka.offsets import OffsetsInitializer as OffsetsInitializer
from flykka.spark_bridge.connectors.kafka.sink import DeliveryGuarantee as DeliveryGuarantee
from flykka.spark_bridge.connectors.kafka.sink import KafkaSink as KafkaSink
from flykka.spark_bridge.connectors.kafka.source import KafkaSource as KafkaSource
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource as PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink as PostgresSink
from flykka.spark_bridge.connectors.postgres.table_reading import postgres_table as postgres_table
from flykka.spark_bridge.connectors.socket_text import SocketTextSource as SocketTextSource
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction as AggregateFunction
from flykka.spark_bridge.functions.aggregate_function import ReduceFunction as ReduceFunction
from flykka.spark_bridge.functions.broadcast_functions import BroadcastContext as BroadcastContext
from flykka.spark_bridge.functions.broadcast_functions import BroadcastProcessFunction as BroadcastProcessFunction
from flykka.spark_bridge.functions.broadcast_functions import KeyedBroadcastContext as KeyedBroadcastContext
from flykka.spark_bridge.functions.broadcast_functions import (
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
)
from flykka.spark_bridge.functions.broadcast_functions import KeyedReadOnlyContext as KeyedReadOnlyContext
from flykka.spark_bridge.functions.broadcast_functions import ReadOnlyContext as ReadOnlyContext
from flykka.spark_bridge.functions.broadcast_functions import ReadOnlyTimerContext as ReadOnlyTimerContext
from flykka.spark_bridge.functions.broadcast_states import ReadOnlyBroadcastState as ReadOnlyBroadcastState
from flykka.spark_bridge.functions.checkpointed_function import CheckpointedFunction as CheckpointedFunction
from flykka.spark_bridge.functions.checkpointed_function import (
    FunctionInitializationContext as FunctionInitializationContext,
)
from flykka.spark_bridge.functions.checkpointed_function import FunctionSnapshotContext as FunctionSnapshotContext
from flykka.spark_bridge.functions.co_functions import CoFlatMapFunction as CoFlatMapFunction
from flykka.spark_bridge.functions.co_functions import CoMapFunction as CoMapFunction
from flykka.spark_bridge.functions.co_functions import CoProcessFunction as CoProcessFunction
from flykka.spark_bridge.functions.co_functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from flykka.spark_bridge.functions.contexts import FunctionContext as FunctionContext
from flykka.spark_bridge.functions.contexts import KeyedContext as KeyedContext
from flykka.spark_bridge.functions.contexts import TimerContext as TimerContext
from flykka.spark_bridge.functions.current_key import TimeDomain as TimeDomain
from flykka.spark_bridge.functions.operator_coordinator import CoordinatedFunction as CoordinatedFunction
from flykka.spark_bridge.functions.operator_coordinator import OperatorCoordinator as OperatorCoordinator
from flykka.spark_bridge.functions.operator_coordinator import (
    OperatorCoordinatorContext as OperatorCoordinatorContext,
)
from flykka.spark_bridge.functions.operator_coordinator import SubtaskGateway as SubtaskGateway
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction as KeyedProcessFunction
from flykka.spark_bridge.functions.process_function import ProcessFunction as ProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext as FunctionRuntimeContext
from flykka.spark_bridge.functions.state_descriptors import AggregatingStateDescriptor as AggregatingStateDescriptor
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor as ListStateDescriptor
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor as MapStateDescriptor
from flykka.spark_bridge.functions.state_descriptors import ReducingStateDescriptor as ReducingStateDescriptor
from flykka.spark_bridge.functions.state_descriptors import ValueStateDescriptor as ValueStateDescriptor
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig as StateTtlConfig
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor as CountEvictor
from flykka.spark_bridge.functions.windowing.evictors import DeltaEvictor as DeltaEvictor
from flykka.spark_bridge.functions.windowing.evictors import Evictor as Evictor
from flykka.spark_bridge.functions.windowing.evictors import TimeEvictor as TimeEvictor
from flykka.spark_bridge.functions.windowing.session_windows import (
    EventTimeSessionWindows as EventTimeSessionWindows,
)
from flykka.spark_bridge.functions.windowing.session_windows import GlobalWindows as GlobalWindows
from flykka.spark_bridge.functions.windowing.session_windows import (
    ProcessingTimeSessionWindows as ProcessingTimeSessionWindows,
)
from flykka.spark_bridge.functions.windowing.time_windows import SlidingEventTimeWindows as SlidingEventTimeWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
    SlidingProcessingTimeWindows as SlidingProcessingTimeWindows,
)
from flykka.spark_bridge.functions.windowing.time_windows import (
    TumblingEventTimeWindows as TumblingEventTimeWindows,
)
from flykka.spark_bridge.functions.windowing.time_windows import (
    TumblingProcessingTimeWindows as TumblingProcessingTimeWindows,
)
from flykka.spark_bridge.functions.windowing.trigger import Trigger as Trigger
from flykka.spark_bridge.functions.windowing.trigger import TriggerResult as TriggerResult
from flykka.spark_bridge.functions.windowing.triggers import (
    ContinuousEventTimeTrigger as ContinuousEventTimeTrigger,
)
from flykka.spark_bridge.functions.windowing.triggers import (
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
)
from flykka.spark_bridge.functions.windowing.triggers import CountTrigger as CountTrigger
from flykka.spark_bridge.functions.windowing.triggers import DeltaTrigger as DeltaTrigger
from flykka.spark_bridge.functions.windowing.triggers import EventTimeTrigger as EventTimeTrigger
from flykka.spark_bridge.functions.windowing.triggers import ProcessingTimeTrigger as ProcessingTimeTrigger
from flykka.spark_bridge.functions.windowing.triggers import PurgingTrigger as PurgingTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner as MergingWindowAssigner
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner as WindowAssigner
from flykka.spark_bridge.functions.windowing.window_function import (
    ProcessAllWindowFunction as ProcessAllWindowFunction,
)
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowFunction as ProcessWindowFunction
from flykka.spark_bridge.functions.windowing.windows import GlobalWindow as GlobalWindow
from flykka.spark_bridge.functions.windowing.windows import TimeWindow as TimeWindow
from flykka.spark_bridge.program.accumulators import DoubleCounter as DoubleCounter
from flykka.spark_bridge.program.accumulators import Histogram as Histogram
from flykka.spark_bridge.program.accumulators import IntCounter as IntCounter
from flykka.spark_bridge.program.accumulators import LongCounter as LongCounter
from flykka.spark_bridge.program.rich_function import RichFunction as RichFunction
from flykka.spark_bridge.program.rich_function import RuntimeContext as RuntimeContext
from flykka.traces.trace import Trace as Trace
