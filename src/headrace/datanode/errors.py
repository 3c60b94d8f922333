"""Refusals of a DataNode, as values of both protocols it speaks.

A refusal has Hadoop's class name for RPC callers and a status for data transfer peers. Nothing
is wrong with the node itself: disks that fail are `StorageError`, broken peers `ProtocolError`.
"""

from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.data_transfer_pb2 import Status

_DATANODE = "org.apache.hadoop.hdfs.server.datanode."
_PROTOCOL = "org.apache.hadoop.hdfs.server.protocol."
IO_EXCEPTION = "java.io.IOException"
REPLICA_NOT_FOUND = _DATANODE + "ReplicaNotFoundException"
REPLICA_ALREADY_EXISTS = _DATANODE + "ReplicaAlreadyExistsException"
RECOVERY_IN_PROGRESS = _PROTOCOL + "RecoveryInProgressException"
DISK_OUT_OF_SPACE = "org.apache.hadoop.util.DiskChecker$DiskOutOfSpaceException"
UNSUPPORTED = "java.lang.UnsupportedOperationException"
DISK_BALANCER = "org.apache.hadoop.hdfs.server.datanode.DiskBalancerException"


class Refusal(RemoteError):
    """A request that can't be done, with the words Hadoop has for it."""

    def __init__(
        self, message: str, class_name: str = IO_EXCEPTION, status: Status = Status.ERROR
    ) -> None:
        super().__init__(class_name, message)
        self.status = status


def replica_not_found(message: str) -> Refusal:
    return Refusal(message, REPLICA_NOT_FOUND)


def replica_exists(message: str) -> Refusal:
    return Refusal(message, REPLICA_ALREADY_EXISTS)
