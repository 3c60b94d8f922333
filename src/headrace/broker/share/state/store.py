"""The topic `__share_group_state`, as the share coordinator sees it.

Owns: the seam (`ShareStateLog`), how the topic is created, and that its head may be cut off.
Must not know: what its records mean.
Spec: KIP-932. The topic is not compacted: what snapshots have made redundant is deleted.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.internal_log import InternalLog, KeyValue, LogEntry, TopicPlan
from headrace.cluster.image import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class ShareStateLog(Protocol):
    def partition_count(self) -> int: ...

    def append(self, partition: int, records: Sequence[KeyValue]) -> Promise[int]:
        """An error code; 0 once the records are as durable as the topic demands."""
        ...

    def read(self, partition: int) -> Iterator[LogEntry]: ...

    def is_local(self, partition: int) -> bool: ...

    def leader_epoch(self, partition: int) -> int: ...

    def end_offset(self, partition: int) -> int:
        """The offset that the next record will have."""
        ...

    def prune(self, partition: int, before_offset: int) -> None:
        """Delete what is older, as far as it is committed."""
        ...

    def ensure_exists(self) -> Promise[int]: ...


class PartitionShareStateLog(InternalLog):
    """`ShareStateLog` over this broker's partitions."""

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker, SHARE_STATE_TOPIC)

    @property
    def read_bytes(self) -> int:
        return int(self._broker.config["share.coordinator.load.buffer.size"])

    @property
    def timeout_ms(self) -> int:
        return int(self._broker.config["share.coordinator.write.timeout.ms"])

    def plan(self) -> TopicPlan:
        config = self._broker.config
        return TopicPlan(
            partition_count=int(config["share.coordinator.state.topic.num.partitions"]),
            replication_factor=int(config["share.coordinator.state.topic.replication.factor"]),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config["share.coordinator.state.topic.min.isr"]),
                "retention.ms": "-1",
                "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
            },
        )

    def end_offset(self, partition: int) -> int:
        target = self._broker.partitions.find(self.topic, partition)
        return 0 if target is None else target.log.log_end_offset

    def prune(self, partition: int, before_offset: int) -> None:
        target = self._broker.partitions.find(self.topic, partition)
        if target is None or target.refusal:
            return
        offset = min(before_offset, target.high_watermark)
        if offset <= target.log.log_start_offset:
            return
        try:
            target.log.delete_records(offset)
            self._broker.partitions.checkpoint_log_start(target)
        except StorageError as error:
            target.fail(error)
            return
        target.on_log_start_moved()
