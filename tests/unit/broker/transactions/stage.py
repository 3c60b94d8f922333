"""A transaction coordinator with everything around it in memory, and held back at will."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.base.promise import Promise
from headrace.broker.internal_log import KeyValue, LogEntry
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.metadata import (
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
)
from headrace.broker.transactions.store import read_state
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

CONFIG = {
    "transaction.max.timeout.ms": 900_000,
    "transactional.id.expiration.ms": 10_000_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transaction.partition.verification.enable": True,
}


class MemoryStateLog:
    """`StateLog` in memory. Held appends are in the log, but nobody has been told."""

    def __init__(self, partition_count: int = 1) -> None:
        self.partitions: list[list[KeyValue]] = [[] for _ in range(partition_count)]
        self.local = set(range(partition_count))
        self.epoch = 3
        self.is_holding = False
        self.held: list[Promise[int]] = []
        self.refusal = 0

    def partition_count(self) -> int:
        return len(self.partitions)

    def append(self, partition: int, records: Sequence[KeyValue]) -> Promise[int]:
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

    def read(self, partition: int) -> Iterator[LogEntry]:
        for offset, (key, value) in enumerate(list(self.partitions[partition])):
            yield offset, key, value

    def is_local(self, partition: int) -> bool:
        return partition in self.local

    def leader_epoch(self, partition: int) -> int:
        return self.epoch if partition in self.local else -1

    def ensure_exists(self) -> Promise[int]:
        return Promise.resolved(0)

    def states(self) -> list[str]:
        """The states in the log, in order."""
        found = []
        for records in self.partitions:
            for key, value in records:
                read = read_state(key, value)
                assert read is not None
                found.append("tombstone" if read[1] is None else read[1].state.title)
        return found


@dataclass(frozen=True)
class Marker:
    leader: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]


class MemoryPeers:
    """`MarkerPeers` that note what they are sent and answer as they are told."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {}
        self.gone: set[TopicPartition] = set()
        self.errors: dict[TopicPartition, list[int]] = {}
        """Told one after the other, then none."""
        self.sent: list[Marker] = []
        self.is_holding = False
        self.held: list[tuple[Promise[WriteTxnMarkersResponse], WriteTxnMarkersResponse]] = []

    def exists(self, topic: str, index: int) -> bool:
        return (topic, index) not in self.gone

    def leader_of(self, topic: str, index: int) -> int | None:
        return self.leaders.get((topic, index), 1)

    def write_markers(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> Promise[WriteTxnMarkersResponse]:
        (marker,) = request.markers
        keys = [(t.name, index) for t in marker.topics for index in t.partition_indexes]
        self.sent.append(
            Marker(
                node_id,
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                marker.coordinator_epoch,
                tuple(keys),
            )
        )
        response = WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._error((topic, index))
                                )
                            ],
                        )
                        for topic, index in keys
                    ],
                )
            ]
        )
        if not self.is_holding:
            return Promise.resolved(response)
        promise: Promise[WriteTxnMarkersResponse] = Promise()
        self.held.append((promise, response))
        return promise

    def _error(self, key: TopicPartition) -> int:
        errors = self.errors.get(key)
        return errors.pop(0) if errors else 0

    def release(self) -> None:
        held, self.held = self.held, []
        for promise, response in held:
            promise.resolve(response)


@dataclass
class Stage:
    log: MemoryStateLog = field(default_factory=MemoryStateLog)
    peers: MemoryPeers = field(default_factory=MemoryPeers)
    server_version: int = 2

    def __post_init__(self) -> None:
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.next_id = 100
        self.config = dict(CONFIG)
        self.open()

    def open(self) -> None:
        """A coordinator that knows only the log."""
        self.coordinator = TransactionCoordinator(
            self.config,
            self.log,
            self.clock,
            self.timers,
            self._fresh,
            self.peers,
            lambda: self.server_version,
        )
        self.coordinator.start()

    def _fresh(self) -> Promise[int]:
        self.next_id += 1
        return Promise.resolved(self.next_id)

    # Short words

    def init(
        self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000, id_: str = "id"
    ) -> Promise[ProducerAnswer]:
        asked = None if expected is None else ProducerIdAndEpoch(*expected)
        return self.coordinator.init_producer_id(id_, timeout_ms, asked)

    def began(self, *partitions: TopicPartition, version: int = 2) -> ProducerAnswer:
        """A producer with an open transaction."""
        answer = self.init().value()
        assert answer.error is ErrorCode.NONE
        added = self.add(answer, *(partitions or (("t", 0),)), version=version)
        assert added.value() is ErrorCode.NONE
        return answer

    def add(
        self, who: ProducerAnswer, *partitions: TopicPartition, version: int = 2
    ) -> Promise[ErrorCode]:
        return self.coordinator.add_partitions(
            "id", who.producer_id, who.producer_epoch, partitions, version
        )

    def end(
        self, who: ProducerAnswer, *, commit: bool = True, version: int = 2
    ) -> Promise[ProducerAnswer]:
        return self.coordinator.end_transaction(
            "id", who.producer_id, who.producer_epoch, is_commit=commit, client_version=version
        )

    def metadata(self) -> TransactionMetadata:
        found = self.coordinator.describe("id")
        assert isinstance(found, TransactionMetadata), found
        return found

    @property
    def state(self) -> str:
        return self.metadata().state.title
