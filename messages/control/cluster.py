"""The cluster as a whole: its components, and its failure."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


@message("cluster.request_components")
class RequestClusterComponents(Message):
    """cluster -> ClusterEntrypoint: return the current components."""

    reply_to: Ref


@message("cluster.components")
class ClusterComponents(Message):
    """ClusterEntrypoint -> cluster: the current components. Their successors will have the same paths."""

    resource_manager: Ref
    job_manager: Ref


@message("cluster.component_due")
class StartComponentDue(Message):
    """ClusterEntrypoint's timer -> itself: restart this component after its delay."""

    component: str


@message("cluster.failed")
class ClusterFailed(Message):
    """ClusterEntrypoint -> event stream: a component has ended repeatedly, so the cluster has ended, for this cause."""

    cause: SerializedThrowable
