"""Blocks moved from full DataNodes to empty ones until all are about equally full.

Owns: who is too full, who has room, which block may go where. Must not know: sockets, the screen.
Spec: Balancer of Hadoop, with its threshold: a DataNode is balanced when its share of used room
differs from the cluster's by no more than so many per cent.

Invariants: a block never goes to a DataNode that has it, nor so that it is on fewer racks; a move
adds the new replica before the old one goes, and the NameNode alone deletes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server

BYTES_PER_PAIR_MAX = 10 << 30
_IN_SERVICE = hdfs.DatanodeInfoProto.NORMAL


@dataclass(slots=True)
class Node:
    info: hdfs.DatanodeInfoProto
    excess_bytes: int
    """How much more (or less) than its share it has; changed by planned moves."""

    @property
    def uuid(self) -> str:
        return self.info.id.datanodeUuid

    @property
    def name(self) -> str:
        return f"{self.info.id.ipAddr}:{self.info.id.xferPort}"


@dataclass(frozen=True, slots=True)
class Move:
    block: hdfs.BlockProto
    source: Node
    target: Node


def in_pool(pool_id: str, block: hdfs.BlockProto) -> hdfs.ExtendedBlockProto:
    return hdfs.ExtendedBlockProto(
        poolId=pool_id,
        blockId=block.blockId,
        generationStamp=block.genStamp,
        numBytes=block.numBytes,
    )


def weigh(infos: Sequence[hdfs.DatanodeInfoProto]) -> list[Node]:
    """DataNodes in service, each with what it has beyond the cluster's average share."""
    serving = [one for one in infos if one.adminState == _IN_SERVICE and one.capacity]
    capacity = sum(one.capacity for one in serving)
    used = sum(one.dfsUsed for one in serving)
    return [Node(one, one.dfsUsed - one.capacity * used // capacity) for one in serving]


def is_balanced(nodes: Sequence[Node], threshold_percent: float) -> bool:
    return all(abs(node.excess_bytes) <= _band(node, threshold_percent) for node in nodes)


def _band(node: Node, threshold_percent: float) -> float:
    return node.info.capacity * threshold_percent / 100


def pairs(nodes: Sequence[Node], threshold_percent: float) -> Iterator[tuple[Node, Node, int]]:
    """(from, to, bytes): the fullest to the emptiest, where one of them is out of the band."""
    full = sorted((n for n in nodes if n.excess_bytes > 0), key=lambda n: -n.excess_bytes)
    empty = sorted((n for n in nodes if n.excess_bytes < 0), key=lambda n: n.excess_bytes)
    for source in full:
        for target in empty:
            outside = source.excess_bytes > _band(
                source, threshold_percent
            ) or -target.excess_bytes > _band(target, threshold_percent)
            wanted = min(source.excess_bytes, -target.excess_bytes, BYTES_PER_PAIR_MAX)
            if outside and wanted > 0:
                yield source, target, wanted


def moves(
    source: Node,
    target: Node,
    wanted_bytes: int,
    blocks: Sequence[server.BlockWithLocationsProto],
    rack_of: Callable[[str], str],
) -> Iterator[Move]:
    """Blocks that may go from one to the other, together at most about `wanted_bytes`."""
    for found in blocks:
        if wanted_bytes <= 0:
            return
        holders = set(found.datanodeUuids)
        size = found.block.numBytes
        if source.uuid not in holders or target.uuid in holders or size > 2 * wanted_bytes:
            continue
        before = {rack_of(uuid) for uuid in holders}
        after = {rack_of(uuid) for uuid in (holders - {source.uuid}) | {target.uuid}}
        if len(after) < len(before):
            continue
        wanted_bytes -= size
        source.excess_bytes -= size
        target.excess_bytes += size
        yield Move(found.block, source, target)
