"""The public methods of PyFlink's DataStream API, by their classes, as of PyFlink 2.3."""

from __future__ import annotations

NAMES: dict[str, str] = {
    "StreamExecutionEnvironment": """
        get_config set_parallelism set_max_parallelism register_slot_sharing_group get_parallelism
        get_max_parallelism set_runtime_mode set_buffer_timeout get_buffer_timeout disable_operator_chaining
        is_chaining_enabled is_chaining_of_operators_with_different_max_parallelism_enabled
        get_checkpoint_config enable_checkpointing get_checkpoint_interval get_checkpointing_mode
        get_checkpointing_consistency_mode enable_changelog_state_backend is_changelog_state_backend_enabled
        set_default_savepoint_directory get_default_savepoint_directory configure add_python_file
        set_python_requirements add_python_archive set_python_executable add_jars add_classpaths
        get_default_local_parallelism set_default_local_parallelism execute execute_async get_execution_plan
        register_cached_file get_execution_environment create_input add_source from_source from_collection
        is_unaligned_checkpoints_enabled is_force_unaligned_checkpoints close
    """,
    "CheckpointConfig": """
        is_checkpointing_enabled get_checkpointing_mode set_checkpointing_mode get_checkpoint_interval
        set_checkpoint_interval get_checkpoint_timeout set_checkpoint_timeout
        get_min_pause_between_checkpoints set_min_pause_between_checkpoints get_max_concurrent_checkpoints
        set_max_concurrent_checkpoints is_fail_on_checkpointing_errors set_fail_on_checkpointing_errors
        get_tolerable_checkpoint_failure_number set_tolerable_checkpoint_failure_number
        set_externalized_checkpoint_retention is_externalized_checkpoints_enabled
        get_externalized_checkpoint_retention is_unaligned_checkpoints_enabled enable_unaligned_checkpoints
        disable_unaligned_checkpoints set_aligned_checkpoint_timeout get_aligned_checkpoint_timeout
        set_alignment_timeout get_alignment_timeout set_force_unaligned_checkpoints
        is_force_unaligned_checkpoints
    """,
    "DataStream": """
        get_name name uid set_uid_hash set_parallelism set_max_parallelism get_type get_execution_environment
        get_execution_config force_non_parallel set_buffer_timeout start_new_chain disable_chaining
        slot_sharing_group set_description map flat_map key_by filter window_all union connect shuffle project
        rescale rebalance forward broadcast process assign_timestamps_and_watermarks partition_custom add_sink
        sink_to execute_and_collect print get_side_output cache
    """,
    "KeyedStream": """
        map flat_map reduce filter sum min max min_by max_by add_sink key_by process window count_window union
        connect shuffle project rescale rebalance forward broadcast partition_custom print set_parallelism
        name get_name uid set_uid_hash set_max_parallelism force_non_parallel set_buffer_timeout
        start_new_chain disable_chaining slot_sharing_group cache
    """,
    "CachedDataStream": "invalidate",
    "ConnectedStreams": "key_by map flat_map process",
    "BroadcastConnectedStream": "process",
    "DataStreamSink": "name uid set_uid_hash set_parallelism set_description disable_chaining slot_sharing_group",
    "AsyncDataStream": "unordered_wait unordered_wait_with_retry ordered_wait ordered_wait_with_retry",
    "WindowedStream": """
        get_execution_environment get_input_type trigger allowed_lateness side_output_late_data reduce
        aggregate apply process
    """,
    "AllWindowedStream": """
        get_execution_environment get_input_type trigger allowed_lateness side_output_late_data reduce
        aggregate apply process
    """,
    "TumblingEventTimeWindows": "of",
    "SlidingEventTimeWindows": "of",
    "TumblingProcessingTimeWindows": "of",
    "SlidingProcessingTimeWindows": "of",
    "EventTimeSessionWindows": "with_gap with_dynamic_gap",
    "ProcessingTimeSessionWindows": "with_gap with_dynamic_gap",
    "GlobalWindows": "create",
    "WindowAssigner": "assign_windows get_default_trigger get_window_serializer is_event_time",
    "MergingWindowAssigner": "merge_windows",
    "Trigger": "on_element on_processing_time on_event_time can_merge on_merge clear",
    "Trigger.TriggerContext": """
        get_current_processing_time get_metric_group get_current_watermark register_processing_time_timer
        register_event_time_timer delete_processing_time_timer delete_event_time_timer get_partitioned_state
    """,
    "Trigger.OnMergeContext": "merge_partitioned_state",
    "TriggerResult": "is_fire is_purge",
    "EventTimeTrigger": "create",
    "ProcessingTimeTrigger": "create",
    "ContinuousEventTimeTrigger": "of",
    "ContinuousProcessingTimeTrigger": "of",
    "CountTrigger": "of",
    "PurgingTrigger": "of",
    "TimeWindow": "max_timestamp intersects cover get_window_start_with_offset merge_windows",
    "MapFunction": "map",
    "FlatMapFunction": "flat_map",
    "FilterFunction": "filter",
    "KeySelector": "get_key",
    "Partitioner": "partition",
    "ReduceFunction": "reduce",
    "AggregateFunction": "create_accumulator add get_result merge",
    "Function": "open close",
    "ProcessFunction": "process_element",
    "KeyedProcessFunction": "process_element on_timer",
    "CoMapFunction": "map1 map2",
    "CoFlatMapFunction": "flat_map1 flat_map2",
    "CoProcessFunction": "process_element1 process_element2",
    "KeyedCoProcessFunction": "process_element1 process_element2 on_timer",
    "BroadcastProcessFunction": "process_element process_broadcast_element",
    "KeyedBroadcastProcessFunction": "process_element process_broadcast_element on_timer",
    "WindowFunction": "apply",
    "AllWindowFunction": "apply",
    "ProcessWindowFunction": "process clear",
    "ProcessAllWindowFunction": "process clear",
    "AsyncFunction": "async_invoke timeout",
    "ProcessFunction.Context": "timer_service timestamp",
    "KeyedProcessFunction.Context": "get_current_key timer_service timestamp",
    "KeyedProcessFunction.OnTimerContext": "time_domain",
    "BaseBroadcastProcessFunction.BaseContext": "timestamp current_processing_time current_watermark",
    "BaseBroadcastProcessFunction.Context": "get_broadcast_state",
    "KeyedBroadcastProcessFunction.ReadOnlyContext": "timer_service get_current_key",
    "KeyedBroadcastProcessFunction.OnTimerContext": "time_domain get_current_key",
    "ProcessWindowFunction.Context": "window current_processing_time current_watermark window_state global_state",
    "ProcessAllWindowFunction.Context": "window window_state global_state",
    "RuntimeContext": """
        get_task_name get_number_of_parallel_subtasks get_max_number_of_parallel_subtasks
        get_index_of_this_subtask get_attempt_number get_task_name_with_subtasks get_job_parameter
        get_metrics_group
    """,
    "TimerService": """
        current_processing_time current_watermark register_processing_time_timer register_event_time_timer
        delete_processing_time_timer delete_event_time_timer
    """,
    "KeyedStateStore": "get_state get_list_state get_map_state get_reducing_state get_aggregating_state",
    "State": "clear",
    "ValueState": "value update",
    "AppendingState": "get add",
    "ListState": "update add_all",
    "MapState": "get put put_all remove contains items keys values is_empty",
    "ReadOnlyBroadcastState": "get contains items keys values is_empty",
    "BroadcastState": "put put_all remove",
    "OperatorStateStore": "get_broadcast_state",
    "StateDescriptor": "get_name enable_time_to_live",
    "ReducingStateDescriptor": "get_reduce_function",
    "AggregatingStateDescriptor": "get_agg_function",
    "StateTtlConfig": """
        new_builder get_update_type get_state_visibility get_ttl get_ttl_time_characteristic is_enabled
        get_cleanup_strategies
    """,
    "StateTtlConfig.Builder": """
        set_update_type update_ttl_on_create_and_write update_ttl_on_read_and_write set_state_visibility
        return_expired_if_not_cleaned_up never_return_expired set_ttl_time_characteristic use_processing_time
        cleanup_full_snapshot cleanup_incrementally cleanup_in_rocksdb_compact_filter
        disable_cleanup_in_background set_ttl build
    """,
    "SlotSharingGroup": """
        get_name get_managed_memory get_task_heap_memory get_task_off_heap_memory get_cpu_cores
        get_external_resources get_java_slot_sharing_group builder
    """,
    "SlotSharingGroup.Builder": """
        set_cpu_cores set_task_heap_memory set_task_heap_memory_mb set_task_off_heap_memory
        set_task_off_heap_memory_mb set_managed_memory set_managed_memory_mb set_external_resource build
    """,
    "WatermarkStrategy": """
        with_timestamp_assigner with_idleness with_watermark_alignment for_monotonous_timestamps
        for_bounded_out_of_orderness no_watermarks
    """,
    "JobClient": """
        get_job_id get_job_status cancel stop_with_savepoint trigger_savepoint get_accumulators
        get_job_execution_result
    """,
    "JobExecutionResult": "get_job_id get_net_runtime get_accumulator_result get_all_accumulator_results",
}
