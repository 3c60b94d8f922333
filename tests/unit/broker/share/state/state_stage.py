"""A share coordinator on simulated time over a log in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.unit.broker.groups.stage import image_of, topic_image

from headrace.base.promise import Promise
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateBatch,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.broker.share.state.coordinator import ShareCoordinator, ShareCoordinatorSettings
from headrace.cluster.image import ClusterImage
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode

KeyValue = tuple[bytes, bytes | None]


class MemoryStateLog:
    """`ShareStateLog` in memory. Held appends are in the log, but nobody has been told."""

    def __init__(self, partition_count: int = 2) -> None:
        self.partitions: list[list[KeyValue]] = [[] for _ in range(partition_count)]
        self.starts = [0] * partition_count
        self.local = set(range(partition_count))
        self.epoch = 1
        self.is_holding = False
        self.held: list[Promise[int]] = []
        self.refusal = 0

    def partition_count(self) -> int:
        return len(self.partitions)

    def append(self, partition: int, records: Sequence[KeyValue]) -> Promise[int]:
        assert records
        if self.refusal:
            return Promise.resolved(self.refusal)
        self.partitions[partition].extend(records)
        if not self.is_holding:
            return Promise.resolved(0)
        self.held.append(Promise())
        return self.held[-1]

    def release(self, error: int = 0) -> None:
        held, self.held = self.held, []
        for promise in held:
            promise.resolve(error)

    def read(self, partition: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        start = self.starts[partition]
        for offset, (key, value) in enumerate(list(self.partitions[partition])):
            if offset >= start:
                yield offset, key, value

    def is_local(self, partition: int) -> bool:
        return partition in self.local

    def leader_epoch(self, partition: int) -> int:
        return self.epoch if partition in self.local else -1

    def end_offset(self, partition: int) -> int:
        return len(self.partitions[partition])

    def prune(self, partition: int, before_offset: int) -> None:
        assert before_offset <= len(self.partitions[partition])
        self.starts[partition] = max(self.starts[partition], before_offset)

    def ensure_exists(self) -> Promise[int]:
        return Promise.resolved(0)

    @property
    def kept_count(self) -> int:
        return sum(
            len(records) - start
            for records, start in zip(self.partitions, self.starts, strict=True)
        )


@dataclass
class StateStage:
    settings: ShareCoordinatorSettings = field(default_factory=ShareCoordinatorSettings)
    log: MemoryStateLog = field(default_factory=MemoryStateLog)
    image: ClusterImage = field(default_factory=lambda: image_of(topic_image("t", 4)))

    def __post_init__(self) -> None:
        self.clock = SimulatedClock()
        self.restart()

    def restart(self, *, is_settled: bool = True) -> None:
        """Another broker over the same log; not yet loaded, unless it is let settle."""
        self.timers = SimulatedTimers(self.clock)
        self.coordinator = ShareCoordinator(
            self.settings, self.log, self.clock, self.timers, lambda: self.image
        )
        self.coordinator.start()
        if is_settled:
            self.timers.run_due()

    def key(self, partition: int = 0, group_id: str = "g") -> SharePartitionKey:
        return SharePartitionKey(group_id, self.image.topics_by_name["t"].topic_id, partition)

    def initialize(
        self, state_epoch: int = 1, start_offset: int = -1, key: SharePartitionKey | None = None
    ) -> ErrorCode:
        wanted = InitializeState(key or self.key(), state_epoch, start_offset)
        return self.coordinator.initialize(wanted).value().error

    def write(
        self,
        *batches: StateBatch,
        state_epoch: int = 1,
        leader_epoch: int = 1,
        start_offset: int = -1,
        count: int = 0,
        key: SharePartitionKey | None = None,
    ) -> ErrorCode:
        wanted = WriteState(
            key or self.key(), state_epoch, leader_epoch, start_offset, count, batches
        )
        return self.coordinator.write(wanted).value().error

    def read(self, leader_epoch: int = 1, key: SharePartitionKey | None = None) -> StateRead:
        return self.coordinator.read(ReadState(key or self.key(), leader_epoch)).value()

    def summary(self, key: SharePartitionKey | None = None) -> SummaryRead:
        return self.coordinator.read_summary(ReadSummary(key or self.key())).value()

    def delete(self, key: SharePartitionKey | None = None) -> ErrorCode:
        return self.coordinator.delete(DeleteState(key or self.key())).value().error
