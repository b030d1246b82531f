"""The cluster as a whole: who makes its parts, and its end."""

from __future__ import annotations

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


@message("cluster.request_components")
class RequestClusterComponents(Message):
    """cluster -> ClusterEntrypoint: who are they now?"""

    reply_to: Ref


@message("cluster.components")
class ClusterComponents(Message):
    """ClusterEntrypoint -> cluster: these two, or those who come after them at the same paths."""

    resource_manager: Ref
    job_manager: Ref


@message("cluster.component_due")
class StartComponentDue(Message):
    """ClusterEntrypoint's timer -> itself: the pause before this component is restarted is over."""

    component: str


@message("cluster.failed")
class ClusterFailed(Message):
    """ClusterEntrypoint -> event stream: a component ends again and again; the cluster has ended, and why."""

    cause: SerializedThrowable
