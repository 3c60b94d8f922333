"""DatanodeProtocol as messages: both forms of a full report, commands, and who is let in."""

from typing import Any

import pytest

from headrace.namespace import datanodes as nodes
from headrace.namespace.rpc.datanode import (
    NO_KEYS,
    DatanodeCalls,
    command_message,
    replicas_of,
)
from headrace.namespace.rpc.shapes import datanode_id_message
from headrace.testing.namenode import SimulatedNameNode
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_frames import varint
from headrace.wire.hadoop.rpc_session import RpcCall

FINALIZED = [(1, 100, 1001), (2**30, 0, 1002), (-(2**62), 7, 1003)]
OTHERS = [(5, 50, 1004, nodes.ReplicaState.RBW), (6, 60, 1005, nodes.ReplicaState.RWR)]
DELIMITER = 2**64 - 1


def report(**fields: object) -> pb.StorageBlockReportProto:
    storage = hdfs.DatanodeStorageProto(storageUuid="s")
    return pb.StorageBlockReportProto(storage=storage, **fields)  # type: ignore[arg-type]


def expected() -> list[nodes.ReportedReplica]:
    return [nodes.ReportedReplica(*one) for one in [*FINALIZED, *OTHERS]]


def as_longs() -> list[int]:
    longs = [len(FINALIZED), len(OTHERS)]
    for block_id, size, stamp in FINALIZED:
        longs += [block_id & (2**64 - 1), size, stamp]
    longs += [DELIMITER] * 3
    for block_id, size, stamp, state in OTHERS:
        longs += [block_id, size, stamp, int(state)]
    return longs


def as_buffer() -> bytes:
    out = b""
    rows = [(*one, nodes.ReplicaState.FINALIZED) for one in FINALIZED] + OTHERS
    for block_id, size, stamp, state in rows:
        zigzag = (block_id << 1) ^ (block_id >> 63)
        out += varint(zigzag & (2**64 - 1)) + varint(size) + varint(stamp) + varint(int(state))
    return out


def test_a_report_in_longs() -> None:
    assert replicas_of(report(blocks=as_longs())) == expected()


def test_a_report_in_buffers() -> None:
    assert replicas_of(report(blocksBuffers=[as_buffer(), as_buffer()])) == expected() * 2


def test_an_empty_report() -> None:
    assert replicas_of(report()) == []
    assert replicas_of(report(blocks=[0, 0, DELIMITER, DELIMITER, DELIMITER])) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"blocks": [1]},
        {"blocks": as_longs()[:-1]},
        {"blocks": [10**9, *as_longs()[1:]]},
        {"blocks": [0, 0, 1, 2, 3]},
        {"blocksBuffers": [as_buffer()[:-1]]},
        {"blocksBuffers": [b"\xff" * 11]},
    ],
)
def test_a_broken_report_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(RemoteError, match="not a block report"):
        replicas_of(report(**broken))


def test_commands() -> None:
    cluster = SimulatedNameNode(datanodes=2)
    storage = next(iter(next(iter(cluster.namenode.datanodes)).storages.values()))
    block = nodes.BlockName(1, 1001, 10)
    transfer = command_message(nodes.TransferCommand(((block, (storage,)),)), "BP-1")
    assert transfer.blkCmd.action == pb.BlockCommandProto.TRANSFER
    assert transfer.blkCmd.targets[0].datanodes[0].id.datanodeUuid == storage.datanode.uuid
    assert transfer.blkCmd.targetStorageUuids[0].storageUuids == [storage.storage_id]
    invalidate = command_message(nodes.InvalidateCommand((block,)), "BP-1")
    assert [one.blockId for one in invalidate.blkCmd.blocks] == [1]
    recovering = nodes.RecoveringBlock(block, (storage,), 1002, nodes.BlockName(1, 1001, 5))
    recover = command_message(nodes.RecoverCommand((recovering,)), "BP-1")
    (one,) = recover.recoveryCmd.blocks
    assert (one.newGenStamp, one.truncateBlock.numBytes) == (1002, 5)
    for command in (transfer, invalidate, recover):
        command.SerializeToString()
    assert command_message(nodes.RegisterCommand(), "BP-1").HasField("registerCmd")
    assert command_message(nodes.FinalizeCommand("BP-1"), "BP-1").finalizeCmd.blockPoolId == "BP-1"


@pytest.mark.parametrize(
    "change", [{}, {"namespceID": 7}, {"clusterID": "another"}, {"cTime": 99}], ids=str
)
def test_a_node_of_another_registration_is_not_heard(change: dict[str, Any]) -> None:
    """Its heartbeats and reports are those of another namespace, or of another life of ours."""
    cluster = SimulatedNameNode(datanodes=1)
    calls = DatanodeCalls(cluster.namenode)
    known = next(iter(cluster.namenode.datanodes))
    registration = pb.DatanodeRegistrationProto(
        datanodeID=datanode_id_message(known.identity),
        storageInfo=calls.storage_info(),
        keys=NO_KEYS,
        softwareVersion="3.5.0",
    )
    for name, value in change.items():
        setattr(registration.storageInfo, name, value)
    pool: Any = {"blockPoolId": cluster.ns.pool_id}
    requests: dict[str, Any] = {
        "sendHeartbeat": pb.HeartbeatRequestProto(registration=registration),
        "blockReport": pb.BlockReportRequestProto(registration=registration, **pool),
        "cacheReport": pb.CacheReportRequestProto(registration=registration, **pool),
        "blockReceivedAndDeleted": pb.BlockReceivedAndDeletedRequestProto(
            registration=registration, **pool
        ),
        "errorReport": pb.ErrorReportRequestProto(
            registartion=registration, errorCode=pb.ErrorReportRequestProto.DISK_ERROR, msg="x"
        ),
    }
    call = RpcCall("hdfs", "", b"c" * 16, 1, 0, "127.0.0.1")
    for method, request in requests.items():
        if not change:
            assert calls.handlers()[method](request, call) is not None
            continue
        with pytest.raises(RemoteError) as caught:
            calls.handlers()[method](request, call)
        assert caught.value.class_name == java.UNREGISTERED_NODE
        assert known.uuid in caught.value.message
