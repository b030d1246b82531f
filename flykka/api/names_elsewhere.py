"""Hints for names of PySpark and Flink that flykka spells otherwise or does not have: one table, shown by the errors.

A name is listed as Python writes it, `group_by`, and is found under `groupBy` too. Each hint gives the code to write
instead, or says that there is nothing of the kind yet, and what serves today. A name that a class has in another
spelling needs no line: `keyBy` is answered with `key_by`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar


def _table(*lines: tuple[str, str]) -> Mapping[str, str]:
    """Hints by name; a line has several names with one hint."""
    return {name: hint for names, hint in lines for name in names.split()}


_WINDOWS = "key_by(...).window(TumblingEventTimeWindows.of('1min')).aggregate(F.count('*'))"
_OUTPUT = "sink_to(FileSink.parquet(path)), or sink_to(ForeachBatchSink(function)) for anything that Spark can write"
_SOURCE = "env.from_source(source, WatermarkStrategy.for_bounded_out_of_orderness('5s').with_timestamp_column('time'))"
_PYTHON = "select(...) and with_column(...) compute columns, map_in_pandas(function, schema) calls Python"
_FUNCTION = f"functions are given DataFrames: {_PYTHON}, transform(function) does whatever a DataFrame can"
_STATE = f"there is no keyed state with timers yet; {_WINDOWS} keeps state, and docs/recipes.md goes further"
_RUNS = (
    "a stream has rows while its job runs: sink_to(ConsoleSink()) prints them, sink_to(ForeachBatchSink(f)) calls"
    " Python"
)
_OF_A_DATAFRAME = "a batch has it: transform(lambda rows: ...) is given each batch as a DataFrame"
_TWO_STREAMS = "two streams cannot be joined yet; docs/recipes.md unites them and puts them together in a window"
_BEHIND_WINDOWS = "say it behind aggregate(...): windows are no stream before that"

_EVERY_STREAM = _table(
    ("map", _PYTHON),
    ("flat_map", "select(F.explode(...)) makes several rows of one, map_in_pandas(function, schema) calls Python"),
    ("project", "select(...)"),
    ("process", f"there is no process function with state and timers yet; {_WINDOWS} keeps state"),
    ("group_by groupby", f"{_WINDOWS} groups by key and window of event time; key_by(...).count() counts per key"),
    (
        "agg aggregate apply approx_quantile corr cov crosstab cube freq_items grouping_sets max max_by min"
        " min_by reduce rollup sum",
        f"aggregates need windows: {_WINDOWS}",
    ),
    ("count", f"it is said of keys: key_by(...).count() has a running count of each, {_WINDOWS} one per window"),
    (
        "distinct drop_duplicates drop_duplicates_within_watermark",
        f"{_WINDOWS} gives one row per key and window; docs/recipes.md keeps the first",
    ),
    ("order_by sort", "the rows of a stream have no order: sort them where they are read"),
    ("sort_within_partitions", "transform(lambda rows: rows.sortWithinPartitions(...)) does it in each batch"),
    ("limit offset", "a stream has no order, and so no first rows: where(condition) keeps rows by their columns"),
    ("with_watermark assign_timestamps_and_watermarks", f"watermarks are those of a source: {_SOURCE}"),
    ("connect co_group interval_join", _TWO_STREAMS),
    ("cross_join lateral_join nearest_by_join", "join(static, how='cross') joins with a DataFrame"),
    (
        "except_all subtract intersect intersect_all",
        "join(static, on, how='left_anti') or 'left_semi' compares with a DataFrame",
    ),
    ("union_all", "union(...) keeps all rows"),
    ("union_by_name", "union(other.select(*stream.columns)): a union wants the same columns in the same order"),
    ("split random_split", "side_output(condition) parts a stream in two"),
    ("sample sample_by", "where(F.rand() < 0.1) keeps a share of the rows"),
    ("alias", "columns get other names with with_column_renamed(existing, new)"),
    ("with_columns_renamed to_df", "with_column_renamed(existing, new), or select(F.col(...).alias(...))"),
    ("fillna na", "with_column(name, F.coalesce(...)), or transform(lambda rows: rows.fillna(...))"),
    ("dropna", "where('column is not null')"),
    ("replace unpivot melt to with_metadata hint col_regex", _OF_A_DATAFRAME),
    ("dtypes get_type", "schema has the columns with their types"),
    ("foreach foreach_partition write write_stream write_to add_sink merge_into", _OUTPUT),
    ("foreach_batch", "sink_to(ForeachBatchSink(function)) calls function(rows, checkpoint_id) for each checkpoint"),
    (
        "print show explain",
        "preview(n) shows first rows without a job; sink_to(ConsoleSink()) prints each batch while the job runs;"
        " print_schema() prints the columns",
    ),
    ("take head first", "preview(n) gives first rows as a pandas DataFrame, without a job"),
    (
        "collect tail is_empty to_pandas to_arrow to_local_iterator to_json execute_and_collect"
        " describe summary pandas_api plot",
        _RUNS,
    ),
    ("execute execute_async", "the environment runs the job: env.execute(name), behind sink_to(...)"),
    (
        "get_execution_environment get_execution_config",
        "settings are methods of the environment, such as env.set_parallelism(n)",
    ),
    ("spark_session sql_ctx", "env.spark is the Spark session"),
    ("cache persist unpersist", "a job computes each stream once, whatever reads it: there is nothing to cache"),
    ("checkpoint local_checkpoint", "env.enable_checkpointing('10s') takes checkpoints of the whole job"),
    (
        "create_or_replace_temp_view create_temp_view create_global_temp_view create_or_replace_global_temp_view"
        " register_temp_table as_table",
        _OF_A_DATAFRAME,
    ),
    (
        "execution_info exists input_files is_local is_streaming metadata_column observe rdd same_semantics scalar"
        " semantic_hash stat storage_level transpose zip zip_with_index",
        _OF_A_DATAFRAME,
    ),
    (
        "repartition repartition_by_id repartition_by_range coalesce",
        "rebalance() or key_by(...), with set_parallelism(n) on what reads the stream",
    ),
    (
        "partition_custom",
        "key_by(...), rebalance(), rescale(), shuffle(), broadcast(), forward() and global_() say how rows travel",
    ),
    ("force_non_parallel", "set_parallelism(1)"),
    ("set_description", "name(text)"),
    ("set_buffer_timeout", "a batch is sent on when it is made: there is no buffer timeout"),
    ("trigger evictor allowed_lateness", "it is said of windows, behind key_by(...).window(...), and is not there yet"),
    ("side_output_late_data", "it is said of windows: key_by(...).window(...).side_output_late_data(tag)"),
    ("iterate close_with", "there are no iterations: a job graph has no cycles"),
)

_DATA_STREAM = _table(
    ("window", "windows need keys: key_by(...).window(...); key_by(F.lit(1)) for windows over all rows"),
    ("window_all", "key_by(F.lit(1)).window(...) cuts all rows into windows"),
    (
        "count_window count_window_all",
        "there are no windows of a number of rows yet: key_by(...).window(...) cuts event time",
    ),
)

_KEYED_STREAM = _table(
    ("aggregate", "windows come first: .window(TumblingEventTimeWindows.of('1min')).aggregate(...)"),
    ("count_window", "there are no windows of a number of rows yet: window(...) cuts event time"),
    (
        "reduce sum min max min_by max_by",
        f"count() is the only running aggregate yet; {_WINDOWS} gives one row per window, and docs/recipes.md has"
        " totals",
    ),
    ("window_all key_by union side_output get_side_output", "say it before key_by(...)"),
    ("forward rebalance rescale shuffle broadcast global_", "key_by(...) says already how rows travel"),
    (
        "name uid set_parallelism set_max_parallelism slot_sharing_group set_co_location_group_key set_uid_hash"
        " start_new_chain disable_chaining",
        "key_by(...) is no operator: say it before, or of what reads the keyed stream",
    ),
)

_WINDOWED_STREAM = _table(
    ("agg count sum min max min_by max_by reduce", "aggregate(F.sum('amount'), F.count('*')) takes Spark's aggregates"),
    (
        "apply process",
        "there are no functions of windows yet: aggregate(...) takes any aggregate of Spark's, F.collect_list(...) too",
    ),
    ("allowed_lateness", "late rows do not change a window that has fired; side_output_late_data(tag) gives them"),
    ("trigger evictor", "a window fires when the watermark passes its end; other triggers are not there yet"),
    ("get_side_output", "it is said of what aggregate(...) gives"),
    (
        "columns drop filter join key_by map_in_arrow map_in_pandas name print_schema schema select select_expr"
        " set_max_parallelism set_parallelism sink_to slot_sharing_group transform uid union where with_column"
        " with_column_renamed with_columns",
        _BEHIND_WINDOWS,
    ),
)

_SINK = _table(
    ("execute execute_async", "the environment runs the job: env.execute(name)"),
    ("set_description", "name(text)"),
    (
        "select where transform key_by",
        "a sink ends a stream: what else is to be done with the rows is said of the stream before it",
    ),
)

_ENVIRONMENT = _table(
    ("add_source create_input", "from_source(source, watermark_strategy)"),
    (
        "from_collection from_elements from_data create_data_frame range",
        "from_dataframe(env.spark.createDataFrame(rows, schema))",
    ),
    (
        "from_sequence generate_sequence",
        "from_source(DataGenSource({'n': sequence()}, number_of_rows=n)), with sequence of flykka.datagen",
    ),
    (
        "read_text_file read_file",
        "from_source(FileSource.csv(path, schema='line string')); there are parquet and json too",
    ),
    (
        "read read_stream",
        "from_source(FileSource.parquet(path)), with monitor_continuously('1s') for files still to come;"
        " env.spark.read is Spark's",
    ),
    ("socket_text_stream", "there is no source of sockets: what lands in a folder is read by FileSource"),
    (
        "sql table execute_sql from_data_stream to_data_stream create_temporary_view",
        "there is no SQL of streams yet; from_dataframe(env.spark.sql(query)) has its rows",
    ),
    (
        "get_checkpoint_config get_config configure get_execution_config",
        "settings are methods of the environment, such as enable_checkpointing(interval, timeout=...)",
    ),
    (
        "set_min_pause_between_checkpoints set_checkpoint_timeout set_max_concurrent_checkpoints"
        " set_tolerable_checkpoint_failure_number set_checkpoint_interval",
        "enable_checkpointing(interval, timeout=..., min_pause=..., max_concurrent=..., tolerable_failures=...)",
    ),
    ("set_checkpoint_storage set_checkpoint_storage_dir", "set_checkpoint_dir(path)"),
    (
        "enable_externalized_checkpoints set_externalized_checkpoint_cleanup",
        "set_externalized_checkpoint_retention('RETAIN_ON_CANCELLATION')",
    ),
    (
        "set_state_backend get_state_backend enable_changelog_state_backend",
        "state is kept in Spark's executors, and written by checkpoints: there is one backend",
    ),
    (
        "get_parallelism get_max_parallelism get_checkpoint_interval get_checkpointing_mode",
        "env.defaults and env.checkpointing have what was set",
    ),
    ("get_execution_plan", "get_job_graph(), or `flykka plan APP.py`"),
    ("set_buffer_timeout get_buffer_timeout", "a batch is sent on when it is made: there is no buffer timeout"),
    (
        "add_python_file add_python_archive set_python_requirements set_python_executable add_jars add_classpaths"
        " register_cached_file",
        "Spark does it: env.spark.sparkContext.addPyFile(path), or the settings of the session that is made before",
    ),
    (
        "await_termination await_any_termination streams",
        "execute(name) waits for the job's end; execute_async(name) gives a JobClient whose wait() does so later",
    ),
    ("create_local_environment create_remote_environment", "get_execution_environment(master=...)"),
    ("spark_context conf udf catalog new_session", "env.spark is the Spark session"),
)

IMPORTS = _table(
    (
        "KafkaSource KafkaSink KafkaOffsetsInitializer KafkaRecordSerializationSchema FlinkKafkaConsumer"
        " FlinkKafkaProducer",
        "there is no Kafka source or sink yet; a FileSource that monitors a folder reads what lands there, a"
        " ForeachBatchSink writes with Spark's own Kafka writer (docs/recipes.md)",
    ),
    (
        "PulsarSource PulsarSink KinesisStreamsSink FlinkKinesisConsumer RMQSource MongoSource JdbcSource"
        " CassandraSink",
        "there is no such connector; FileSource, DataGenSource and env.from_dataframe(...) are there",
    ),
    (
        "JdbcSink ElasticsearchSink MongoSink DeltaSink IcebergSink",
        "there is no such sink yet; ForeachBatchSink(function) writes with whatever Spark or Python has"
        " (docs/recipes.md)",
    ),
    ("PrintSink PrintSinkFunction", "ConsoleSink()"),
    (
        "StreamingFileSink StreamFormat CsvReaderFormat BulkWriterFactory Encoder",
        "FileSource and FileSink have .parquet(path), .json(path) and .csv(path)",
    ),
    ("NumberSequenceSource DataGeneratorSource", "DataGenSource, with the functions of flykka.datagen"),
    ("MemorySource CollectionSource", "env.from_dataframe(...)"),
    (
        "EventTimeSessionWindows DynamicEventTimeSessionWindows ProcessingTimeSessionWindows SessionWindows Session",
        "session windows are not there yet; docs/recipes.md makes sessions of TumblingEventTimeWindows",
    ),
    (
        "TumblingProcessingTimeWindows SlidingProcessingTimeWindows GlobalWindows CountWindow Tumble Slide"
        " CountTumblingWindowAssigner CountSlidingWindowAssigner",
        "windows are of event time: TumblingEventTimeWindows.of('1min'), SlidingEventTimeWindows.of('1h', '1min')",
    ),
    ("TumblingWindows TumblingEventTimeWindow", "TumblingEventTimeWindows"),
    ("SlidingWindows SlidingEventTimeWindow", "SlidingEventTimeWindows"),
    (
        "Trigger EventTimeTrigger ProcessingTimeTrigger CountTrigger PurgingTrigger Evictor",
        "a window fires when the watermark passes its end; other triggers are not there yet",
    ),
    (
        "MapFunction FlatMapFunction FilterFunction RichMapFunction RichFlatMapFunction KeySelector AsyncFunction"
        " AsyncDataStream",
        _FUNCTION,
    ),
    (
        "ReduceFunction AggregateFunction WindowFunction ProcessWindowFunction ProcessAllWindowFunction",
        f"aggregates are Spark's: {_WINDOWS}",
    ),
    (
        "ProcessFunction KeyedProcessFunction CoProcessFunction KeyedCoProcessFunction BroadcastProcessFunction"
        " KeyedBroadcastProcessFunction CoMapFunction CoFlatMapFunction ConnectedStreams BroadcastStream"
        " StatefulProcessor",
        _STATE,
    ),
    (
        "ValueState ListState MapState ValueStateDescriptor ListStateDescriptor MapStateDescriptor"
        " ReducingStateDescriptor"
        " AggregatingStateDescriptor StateTtlConfig",
        _STATE,
    ),
    (
        "TimestampAssigner WatermarkGenerator TimestampsAndWatermarks",
        "WatermarkStrategy.for_bounded_out_of_orderness('5s').with_timestamp_column('time')",
    ),
    ("Time Duration", "a length of time is a text, '10s' or '5 min', or a timedelta"),
    (
        "Types TypeInformation Row SimpleStringSchema DeserializationSchema JsonRowDeserializationSchema",
        "types are Spark's: a schema is a StructType, or a text such as 'id long, name string'",
    ),
    (
        "Configuration ExecutionConfig CheckpointConfig EnvironmentSettings",
        "settings are methods of StreamExecutionEnvironment",
    ),
    ("ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"),
    (
        "RestartStrategy RestartStrategyConfiguration",
        "RestartStrategies, as in env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, '10s'))",
    ),
    (
        "StateBackend HashMapStateBackend EmbeddedRocksDBStateBackend RocksDBStateBackend FsStateBackend"
        " MemoryStateBackend",
        "state is kept in Spark's executors, and written by checkpoints: there is one backend",
    ),
    (
        "StreamTableEnvironment TableEnvironment Table",
        "there is no SQL of streams yet; env.from_dataframe(env.spark.sql(query)) has its rows",
    ),
    (
        "StreamingContext DStream Environment ExecutionEnvironment Stream",
        "StreamExecutionEnvironment, whose from_source(...) gives a DataStream",
    ),
    ("StreamingQuery DataStreamWriter DataStreamReader", "env.execute_async(name) gives a JobClient"),
    ("SparkSession DataFrame", "it is Spark's: from pyspark.sql import SparkSession, DataFrame"),
    ("F functions col lit udf pandas_udf", "it is Spark's: from pyspark.sql import functions as F"),
    (
        "Window",
        "of rows of a DataFrame it is Spark's; a stream has TumblingEventTimeWindows and SlidingEventTimeWindows",
    ),
)


def import_hint(name: str) -> str | None:
    """The hint for a name that `flykka` does not have; None where there is none."""
    # Loaded when it is needed: this is asked for every module of flykka's too that is not loaded yet.
    if name.endswith("Error") and hasattr(import_module("flykka.errors"), name):
        return f"errors are in flykka.errors: from flykka.errors import {name}"
    return IMPORTS.get(name)


class NamesElsewhere:
    """Adds the hint to the `AttributeError` of a name that a class does not have, but PySpark or Flink has."""

    __slots__ = ()
    _names_elsewhere: ClassVar[tuple[Mapping[str, str], ...]] = ()

    # Type checkers are not told of it: they would let every name pass.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if not name.startswith("_") and (hint := hint_for(type(self), name)) is not None:
                # Without `obj`, Python adds no guess of its own.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {hint}", name=name)
            # Python's own error, with what it may have meant; also that of a property whose code has raised it.
            return object.__getattribute__(self, name)


def hint_for(owner: type[NamesElsewhere], name: str) -> str | None:
    """The hint for an attribute that instances of `owner` do not have; None where there is none."""
    if hasattr(owner, name):
        return None
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if spelled != name and hasattr(owner, spelled):
        return f"it is spelled {spelled}"
    return next((table[spelled] for table in owner._names_elsewhere if spelled in table), None)


DATA_STREAM = (_DATA_STREAM, _EVERY_STREAM)
KEYED_STREAM = (_KEYED_STREAM, _EVERY_STREAM)
WINDOWED_STREAM = (_WINDOWED_STREAM, dict.fromkeys(_EVERY_STREAM, _BEHIND_WINDOWS))
SINK = (_SINK,)
ENVIRONMENT = (_ENVIRONMENT,)
