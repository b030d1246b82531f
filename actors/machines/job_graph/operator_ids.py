"""The ids by which state is found when a program runs again (Flink's StreamGraphHasherV2).

The id of an operator with a uid depends only on that uid. Without a uid the id depends on the structure: on the
operator's position in a breadth-first traversal from the sources, on the number of operators chained to it, and on the
ids of its inputs. So its name and its parallelism may change, but not the operators before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.chaining import is_chainable, sharing_groups
from flykka.actors.machines.job_graph.stream_graph import StreamGraph, StreamNode
from flykka.messages.wire.ids import JobVertexId, OperatorId

_SIZE = 16
_MIX = 37
"""The factor with which an input's id is mixed in byte by byte, as in Flink, so that the order of the inputs counts."""


def operator_id(uid: str) -> OperatorId:
    return OperatorId(_of_uid(uid).hex())


def given_uid(identifier: OperatorId, uid: str) -> str | None:
    """Return the uid of the operator with this id, or `None` if the user did not set it, so that `uid` is automatic."""
    return uid if identifier == operator_id(uid) else None


def vertex_id(head: OperatorId) -> JobVertexId:
    return JobVertexId(head)


def operator_ids(graph: StreamGraph) -> dict[str, OperatorId]:
    """Return the id of every operator by its uid, including automatic uids.

    Raises:
        GraphError: two operators have the same id, or one would get the state of another.
    """
    groups = sharing_groups(graph)
    ids: dict[str, bytes] = {}
    owner: dict[bytes, str] = {}
    ahead = deque(node for node in graph.nodes if not graph.inputs(node.uid))
    waiting = {node.uid for node in ahead}
    while ahead:
        node = ahead.popleft()
        if any(edge.source_uid not in ids for edge in graph.inputs(node.uid)):
            # The node is visited again after the input that is still missing.
            waiting.discard(node.uid)
            continue
        digest = _of_structure(graph, node, ids, groups) if node.has_automatic_uid else _of_uid(node.uid)
        if digest in owner:
            raise GraphError(
                f"the operators {owner[digest]!r} and {node.uid!r} have the same id: give each a uid of its own"
            )
        ids[node.uid], owner[digest] = digest, node.uid
        for edge in graph.outputs(node.uid):
            if edge.target_uid not in waiting:
                waiting.add(edge.target_uid)
                ahead.append(graph.node(edge.target_uid))
    hex_ids = {uid: OperatorId(digest.hex()) for uid, digest in ids.items()}
    _check_hashes(graph, hex_ids)
    return hex_ids


def _check_hashes(graph: StreamGraph, ids: Mapping[str, OperatorId]) -> None:
    owner = {operator: uid for uid, operator in ids.items()}
    for node in graph.nodes:
        other = None if node.uid_hash is None else owner.get(OperatorId(node.uid_hash), node.uid)
        if other is not None and other != node.uid:
            # After every failure the operator would restore the current state of the other operator.
            raise GraphError(
                f"the uid hash of {node.uid!r}, {node.uid_hash}, is the current id of {other!r}: one of them would get"
                f" the state of the other; give {other!r} a uid of its own with uid(...)"
            )


def _of_uid(uid: str) -> bytes:
    return blake2b(uid.encode(), digest_size=_SIZE).digest()


def _of_structure(graph: StreamGraph, node: StreamNode, ids: dict[str, bytes], groups: dict[str, str]) -> bytes:
    place = len(ids).to_bytes(4)
    chained = sum(is_chainable(graph, edge, groups) for edge in graph.outputs(node.uid))
    digest = bytearray(blake2b(place * (1 + chained), digest_size=_SIZE).digest())
    for edge in graph.inputs(node.uid):
        digest = bytearray((own * _MIX ^ other) & 0xFF for own, other in zip(digest, ids[edge.source_uid], strict=True))
    return bytes(digest)
