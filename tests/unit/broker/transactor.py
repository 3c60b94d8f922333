"""A transactional producer in raw requests, in either protocol, and a reader of what it left.

    one = Transactor(broker, "id", bumps=True)
    one.init(); one.write("t", 0, "a"); one.end(commit=True)

Nothing is retried: a test sees every answer as it came.
"""

from collections.abc import Mapping
from typing import Any

from tests.unit.broker.dialogue import NOW_MS, READ_COMMITTED, Client, only_produced

from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from headrace.wire.kafka.messages.end_txn import EndTxnRequest
from headrace.wire.kafka.messages.fetch import PartitionData
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.kafka.records import build_batch, read_batches, read_records

FLAGS = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "2"}
KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1


def transactional_broker(*topics: str, **flags: Any) -> SimulatedBroker:
    broker = SimulatedBroker(**{**FLAGS, **flags})
    for topic in topics or ("t",):
        broker.create_topic(topic, 2)
    return broker


def find_coordinators(client: Client) -> None:
    for key_type in (KEY_TYPE_TRANSACTION, KEY_TYPE_GROUP):
        request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
        assert client.ask(request, 4).coordinators[0].error_code == 0


class Transactor(Client):
    def __init__(
        self, broker: SimulatedBroker, transactional_id: str = "id", *, bumps: bool = True
    ) -> None:
        super().__init__(broker)
        self.transactional_id = transactional_id
        self.bumps = bumps
        """Transactions v2: partitions are added by writing, the epoch changes at each end."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        find_coordinators(self)

    @property
    def produce_version(self) -> int:
        return 12 if self.bumps else 10

    # Requests, and the error code of each

    def init(self, *, timeout_ms: int = 60_000, resume: bool = False, version: int = 5) -> int:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if resume:
            request.producer_id = self.producer_id
            request.producer_epoch = self.producer_epoch
        response = self.ask(request, version)
        if not response.error_code:
            self.take(response.producer_id, response.producer_epoch)
        return int(response.error_code)

    def take(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self.sequences.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def add(self, topic: str, *indexes: int, version: int = 3) -> dict[int, int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
        )
        (result,) = self.ask(request, version).results_by_topic_v3_and_below
        return {r.partition_index: r.partition_error_code for r in result.results_by_partition}

    def batch(self, *values: str, sequence: int = 0, is_transactional: bool = True) -> bytes:
        return bytes(
            build_batch(
                [(b"k", value.encode(), (), NOW_MS) for value in values],
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
        )

    def produce_batch(
        self, topic: str, index: int, whole: bytes, *, version: int | None = None
    ) -> Any:
        version = self.produce_version if version is None else version
        request = self.produce_request(topic, {index: whole}, version=version)
        request.transactional_id = self.transactional_id
        return only_produced(self.ask(request, version))

    def write(self, topic: str, index: int, *values: str) -> int:
        """The error code; the sequence moves on only when the batch was taken."""
        sequence = self.sequences.get((topic, index), 0)
        answer = self.produce_batch(topic, index, self.batch(*values, sequence=sequence))
        if not answer.error_code:
            self.sequences[topic, index] = sequence + len(values)
        return int(answer.error_code)

    def begin(self, topic: str, *indexes: int) -> None:
        """In the old protocol partitions are added first; in the new there is nothing to do."""
        if not self.bumps:
            assert set(self.add(topic, *indexes).values()) == {0}

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
        )
        return int(self.ask(request, version).error_code)

    def commit_offset(
        self, group: str, topic: str, index: int, offset: int, *, version: int | None = None
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        version = (5 if self.bumps else 3) if version is None else version
        response = self.ask(request, version)
        return int(response.topics[0].partitions[0].error_code)

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
        )

    def end(self, *, commit: bool, version: int | None = None) -> int:
        version = (5 if self.bumps else 3) if version is None else version
        response = self.ask(self.end_request(commit=commit), version)
        if not response.error_code and version >= 5:
            self.take(response.producer_id, response.producer_epoch)
        return int(response.error_code)


def committed_values(client: Client, topic: str, index: int = 0) -> list[str]:
    """What a read_committed reader sees, fetch by fetch, leaving out what was aborted."""
    found: list[str] = []
    offset = 0
    for _ in range(1_000):
        partition = client.fetch(topic, index, offset, isolation_level=READ_COMMITTED)
        assert partition.error_code == 0
        some, offset_after = visible(partition, offset)
        found += some.values()
        if offset_after == offset:
            return found
        offset = offset_after
    raise AssertionError("a log without end")


def visible(partition: PartitionData, from_offset: int) -> tuple[Mapping[int, str], int]:
    """Values by offset as Kafka's consumer picks them, and the offset behind the last batch."""
    aborted = sorted(
        (one.first_offset, one.producer_id) for one in partition.aborted_transactions or ()
    )
    gone: set[int] = set()
    seen: dict[int, str] = {}
    for header, batch in read_batches(partition.records or b""):
        while aborted and aborted[0][0] <= header.last_offset:
            gone.add(aborted.pop(0)[1])
        if header.is_control:
            (record,) = read_records(batch)
            if (record.key or b"")[3:4] == b"\x00":
                gone.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in gone):
            for record in read_records(batch):
                if record.offset >= from_offset:
                    seen[record.offset] = (record.value or b"").decode()
        from_offset = header.next_offset
    return seen, from_offset


def committed_offset(
    client: Client, group: str, topic: str, index: int, *, require_stable: bool = True
) -> tuple[int, int]:
    """(error code, offset)"""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index])],
            )
        ],
        require_stable=require_stable,
    )
    (answer,) = client.ask(request, 8).groups
    assert answer.error_code == 0
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.committed_offset
