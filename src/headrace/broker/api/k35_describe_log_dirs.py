"""DescribeLogDirs (key 35), versions 1–5.

2 flexible · 3 top-level error · 4 total and usable bytes (KIP-827) · 5 cordoned directories.
A directory that failed is named with KAFKA_STORAGE_ERROR and without its partitions. A replica on
its way into a directory is named there as a future one, with how far it is behind.
"""

from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DescribeLogDirsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DescribeLogDirsResponse:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: set(topic.partitions) for topic in request.topics}
    return DescribeLogDirsResponse(
        results=[_describe(broker, path, wanted) for path in broker.partitions.directory_paths]
    )


def _describe(
    broker: "Broker", path: str, wanted: dict[str, set[int]] | None
) -> DescribeLogDirsResult:
    if broker.partitions.is_offline(path):
        return DescribeLogDirsResult(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in broker.partitions.in_directory(path):
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,
            )
        )
    for partition, future in broker.moves.into(path):
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=future.copy.size_bytes,
                offset_lag=future.lag,
                is_future_key=True,
            )
        )
    total_bytes = usable_bytes = -1
    try:
        total_bytes = broker.storage.total_bytes(path)
        usable_bytes = broker.storage.free_bytes(path)
    except StorageError:
        pass  # the sizes are a courtesy; -1 says "not known"
    return DescribeLogDirsResult(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=_is_cordoned(broker, path),
    )


def _is_cordoned(broker: "Broker", path: str) -> bool:
    """As the controller has heard of it: from then on nothing new is placed there."""
    registered = broker.image.brokers.get(broker.node_id)
    return (
        registered is not None
        and broker.partitions.directory_id(path) in registered.cordoned_log_dirs
    )
