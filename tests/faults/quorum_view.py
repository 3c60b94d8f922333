"""The metadata quorum as a fault test sees it: who leads it, who votes, and what is in its logs.

Owns: questions to one controller at a time, because one of them may be dead or asleep, and the
metadata log in the files of every node. Must not know: which faults are injected.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from tests.faults.node_rig import NodeRig, RigNode
from tests.faults.topic_load import open_connection

from headrace.client.errors import ClientError
from headrace.client.quorum import Quorum, QuorumClient
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.wire.kafka.record_batch import HEADER_BYTES, read_header

CONTROLLERS = 2
METADATA = "__cluster_metadata"
WAIT_S = 60.0


def leader_told_by(address: str) -> int:
    """By a controller; -1 where it does not answer or knows of none."""
    try:
        connection = open_connection(address, timeout_ms=1_000)
    except ClientError:
        return -1
    try:
        asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        return connection.call(asked, DescribeClusterResponse).controller_id
    except ClientError:
        return -1
    finally:
        connection.close()


def controllers_of(rig: NodeRig, without: int | None = None) -> list[str]:
    return [
        f"{node.host}:{node.controller_port}"
        for node in rig.nodes.values()
        if node.node_id != without
    ]


def active_controller(rig: NodeRig) -> int:
    """Once all controllers agree on it."""
    told: set[int] = set()
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        told = {leader_told_by(address) for address in controllers_of(rig)}
        if len(told) == 1 and told != {-1}:
            return told.pop()
        time.sleep(0.05)
    raise AssertionError(f"no active controller within {WAIT_S:g} s, but {told}")


def await_other_controller(rig: NodeRig, before: int) -> float:
    """Until both others name another; how long that took."""
    started_s = time.monotonic()
    told: list[int] = []
    while time.monotonic() - started_s < WAIT_S:
        told = [leader_told_by(address) for address in controllers_of(rig, before)]
        if len(set(told)) == 1 and told[0] not in (-1, before):
            return time.monotonic() - started_s
        time.sleep(0.02)
    raise AssertionError(f"nobody leads instead of {before} within {WAIT_S:g} s: {told}")


def describe(rig: NodeRig, without: int | None = None) -> Quorum:
    servers = ",".join(controllers_of(rig, without))
    return QuorumClient(servers, are_controllers=True, patience_ms=30_000).describe()


def await_quorum_whole(rig: NodeRig) -> Quorum:
    """Until every node votes and has fetched all that is committed."""
    quorum: Quorum | None = None
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        quorum = describe(rig)
        ends = [each.log_end_offset for each in quorum.voters]
        if len(ends) == len(rig.nodes) and min(ends) >= quorum.high_watermark:
            return quorum
        time.sleep(0.1)
    raise AssertionError(f"after {WAIT_S:g} s still {quorum}")


def metadata_folder(node: RigNode) -> Path:
    return Path(node.log_dirs[0]) / f"{METADATA}-0"


def metadata_batches(node: RigNode) -> dict[int, tuple[int, int, int]]:
    """By base offset: epoch, next offset and checksum, of whole batches."""
    found = {}
    for log in sorted(metadata_folder(node).glob("*.log")):
        content, position = log.read_bytes(), 0
        while position + HEADER_BYTES <= len(content):
            header = read_header(content, position)
            if header.size_bytes < HEADER_BYTES or position + header.size_bytes > len(content):
                break
            found[header.base_offset] = (
                header.partition_leader_epoch,
                header.next_offset,
                header.crc,
            )
            position += header.size_bytes
    return found


def compare_metadata(nodes: Iterable[RigNode], high_watermark: int) -> int:
    """Below the high watermark all logs hold the same; how many batches were compared."""
    held = [metadata_batches(node) for node in nodes]
    start = max(min(each, default=0) for each in held)
    committed = [
        {base: rest for base, rest in each.items() if base >= start and rest[1] <= high_watermark}
        for each in held
    ]
    first = committed[0]
    for other in committed[1:]:
        differing = [
            base for base in first.keys() | other.keys() if first.get(base) != other.get(base)
        ]
        assert differing == [], f"metadata logs differ at {sorted(differing)[:5]}"
    assert first, "void: there was nothing to compare"
    return len(first)
