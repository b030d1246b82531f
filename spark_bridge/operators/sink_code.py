"""The code of sinks. In each attempt it creates the operator with a writer of the sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.sink import SinkOperator
from flykka.spark_bridge.program.sink import SinkContext
from flykka.spark_bridge.rows.materialise import Slices, together

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.program.sink import Sink
    from flykka.spark_bridge.program.sink_writer import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCode(OperatorCode):
    kind = OperatorKind.SINK

    sink: Sink

    def needs_order(self, *, readers_do: bool) -> bool:
        return self.sink.needs_order

    @property
    def fingerprint(self) -> str:
        """The sink's format, without its target, which may change between two runs."""
        return f"sink({self.sink.format})"

    def operator(self, context: OperatorContext) -> SinkOperator[Slices]:
        descriptor, job, link = context.descriptor, context.sinks, context.link
        sink = self.sink.for_job(descriptor.job_id)
        writer = sink.writer(
            SinkContext(
                filesystem=context.storage.filesystem,
                scope=context.scope,
                user_session=job.user_session,
                uid=link.uid,
                name=link.operator.name,
                operator=link.description,
                subtask=descriptor.subtask,
                parallelism=descriptor.vertex.parallelism,
                attempt_number=descriptor.attempt_number,
                staging_folder=sink.staging_folder(descriptor.job_id, descriptor.checkpoint_directory),
                job_id=descriptor.job_id,
                job_name=job.name,
                fsync=descriptor.checkpoint_fsync,
                owner_number=job.owner_number,
            )
        )

        def stage(rows: Slices) -> Staged:
            context.scope.check()
            if not self.sink.publishes_per_checkpoint:
                job.check_owner()
            return writer.stage(together(rows))

        files = context.storage.files
        return SinkOperator(context.operator_id, writer, stage, files, descriptor.attempt, job.check_owner)
