"""AlterReplicaLogDirs (key 34), versions 1–2.

2 flexible. The answer says that the move has begun (KIP-113); DescribeLogDirs shows how far it is.
A replica that is still to come (a reassignment names its directory beforehand) is answered with
REPLICA_NOT_AVAILABLE, and its directory is remembered. A cordoned directory takes none.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: AlterReplicaLogDirsRequest,
    context: RequestContext,  # noqa: ARG001
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = topics.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            for index in topic.partitions:
                error = _alter(broker, topic.name, index, directory.path)
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(error))
                )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _alter(broker: "Broker", topic: str, index: int, path: str) -> ErrorCode:
    directory = broker.partitions.homes.at(path)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if path in broker.partitions.homes.cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition = broker.partitions.find(topic, index)
    if partition is not None:
        return broker.moves.move(partition, directory)
    error = broker.partitions.missing(topic, index)
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    if error in (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        broker.moves.prefer(topic, index, directory)
    return error
