"""Members of share groups in bytes against a whole simulated broker, and a persister to hold up.

stage = Stage(partitions=2)
member = stage.member("m")
member.fetch()            # opens a session with the topic's partitions
member.fetch(accept(0, 4))
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.broker.dialogue import Client, batch

from headrace.base.promise import Promise
from headrace.broker.share.delivery import ShareDelivery
from headrace.broker.share.hosted import HostedSharePartition
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateBatch,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.cluster.features import SHARE_VERSION
from headrace.cluster.image import RESOURCE_GROUP
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import share_acknowledge, share_fetch
from headrace.wire.kafka.messages.metadata_records import ConfigRecord
from headrace.wire.kafka.records import read_batches, read_records

GROUP = "g"
TOPIC = "t"
VERSION = 2

Ack = tuple[int, int, list[int]]


def accept(first: int, last: int) -> Ack:
    return first, last, [1]


def release(first: int, last: int) -> Ack:
    return first, last, [2]


def reject(first: int, last: int) -> Ack:
    return first, last, [3]


class KeptState:
    """Keeps state in memory, a record at a time; may be held up or refuse."""

    def __init__(self) -> None:
        self.start_offset = -1
        self.state_epoch = 0
        self.records: dict[int, tuple[int, int]] = {}
        self.writes: list[WriteState] = []
        self.read_error = ErrorCode.NONE
        self.write_error = ErrorCode.NONE
        self.is_held = False
        self._held: list[Callable[[], None]] = []

    def let_go(self) -> None:
        held, self._held = self._held, []
        for each in held:
            each()

    def read(self, wanted: ReadState) -> Promise[StateRead]:  # noqa: ARG002
        batches = tuple(StateBatch(r, r, *self.records[r]) for r in sorted(self.records))
        found = StateRead(self.read_error, None, self.state_epoch, self.start_offset, batches)
        return self._later(lambda: found)

    def write(self, wanted: WriteState) -> Promise[Outcome]:
        return self._later(lambda: self._write(wanted))

    def _write(self, wanted: WriteState) -> Outcome:
        if self.write_error:
            return Outcome(self.write_error)
        if wanted.state_epoch < self.state_epoch:
            return Outcome(ErrorCode.FENCED_STATE_EPOCH)
        self.writes.append(wanted)
        self.start_offset = wanted.start_offset
        for each in wanted.state_batches:
            for record in range(each.first_offset, each.last_offset + 1):
                self.records[record] = (each.delivery_state, each.delivery_count)
        self.records = {r: kept for r, kept in self.records.items() if r >= self.start_offset}
        return Outcome(ErrorCode.NONE)

    def _later(self, make: Callable[[], Any]) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        if self.is_held:
            self._held.append(lambda: promise.resolve(make()))
        else:
            promise.resolve(make())
        return promise

    def initialize(self, wanted: InitializeState) -> Promise[Outcome]:
        raise NotImplementedError(wanted)

    def delete(self, wanted: DeleteState) -> Promise[Outcome]:
        raise NotImplementedError(wanted)

    def read_summary(self, wanted: ReadSummary) -> Promise[SummaryRead]:
        raise NotImplementedError(wanted)


class Member(Client):
    """One member of a share group on a connection of its own."""

    def __init__(self, broker: SimulatedBroker, member_id: str, partitions: int) -> None:
        super().__init__(broker)
        self.member_id = member_id
        self.epoch = 0
        self._partitions = partitions

    def request(self, *acks: Ack, index: int = 0, **fields: Any) -> share_fetch.ShareFetchRequest:
        acked = [
            share_fetch.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in acks
        ]
        indexes = range(self._partitions) if self.epoch == 0 else [index] if acks else []
        partitions = [
            share_fetch.FetchPartition(
                partition_index=each, acknowledgement_batches=acked if each == index else []
            )
            for each in indexes
        ]
        topics = [share_fetch.FetchTopic(topic_id=self.topic_id(TOPIC), partitions=partitions)]
        fields.setdefault("share_session_epoch", self.epoch)
        fields.setdefault("max_records", 500)
        fields.setdefault("batch_size", 500)
        fields.setdefault("group_id", GROUP)
        return share_fetch.ShareFetchRequest(
            member_id=self.member_id, topics=topics if partitions else [], **fields
        )

    def fetch_whole(self, *acks: Ack, version: int = VERSION, **fields: Any) -> Any:
        answer = self.ask(self.request(*acks, **fields), version)
        if not answer.error_code:
            self.epoch += 1
        return answer

    def fetch_one(self, *acks: Ack, **fields: Any) -> share_fetch.PartitionData | None:
        """The only partition of the answer, if there is one."""
        answer = self.fetch_whole(*acks, **fields)
        assert answer.error_code == 0
        rows = [row for topic in answer.responses for row in topic.partitions]
        assert len(rows) <= 1
        return rows[0] if rows else None

    def take(self, *acks: Ack, **fields: Any) -> list[tuple[int, int, int]]:
        """What is acquired, of the one partition."""
        return acquired(self.fetch_one(*acks, **fields))

    def begin(self, *acks: Ack, version: int = VERSION, **fields: Any) -> None:
        """A fetch that may have to wait; `answers` tells what came."""
        fields.setdefault("max_wait_ms", 500)
        self.transport.feed(self.frame(self.request(*acks, **fields), version))
        self.epoch += 1
        self.broker.settle()

    def came(self, version: int = VERSION) -> list[list[tuple[int, int, int]]]:
        """What the answers since the last look gave, each."""
        return [
            [
                each
                for topic in answer.responses
                for row in topic.partitions
                for each in acquired(row)
            ]
            for answer in self.answers(share_fetch.ShareFetchRequest, version)
        ]

    def acknowledge_request(
        self, *acks: Ack, index: int = 0, epoch: int | None = None, is_renew_ack: bool = False
    ) -> share_acknowledge.ShareAcknowledgeRequest:
        acked = [
            share_acknowledge.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in acks
        ]
        partition = share_acknowledge.AcknowledgePartition(
            partition_index=index, acknowledgement_batches=acked
        )
        topic = share_acknowledge.AcknowledgeTopic(
            topic_id=self.topic_id(TOPIC), partitions=[partition]
        )
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renew_ack,
            topics=[topic],
        )

    def acknowledge(self, *acks: Ack, version: int = VERSION, **fields: Any) -> tuple[int, int]:
        """The error of the whole, and of the partition."""
        answer = self.ask(self.acknowledge_request(*acks, **fields), version)
        if answer.error_code:
            return answer.error_code, 0
        self.epoch += 1
        return 0, answer.responses[0].partitions[0].error_code

    def disconnect(self) -> None:
        self.transport.close("the client is gone")
        self.broker.settle()


def acquired(row: share_fetch.PartitionData | None) -> list[tuple[int, int, int]]:
    if row is None:
        return []
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in row.acquired_records]


def values_of(row: share_fetch.PartitionData | None) -> list[str]:
    """The records that the member may look at: those sent, of those acquired."""
    assert row is not None
    mine = [range(first, last + 1) for first, last, _ in acquired(row)]
    return [
        (record.value or b"").decode()
        for _, whole in read_batches(row.records or b"")
        for record in read_records(whole)
        if any(record.offset in each for each in mine)
    ]


class Stage:
    """A broker with a topic, a share group that begins at the start of it, and kept state."""

    def __init__(
        self,
        partitions: int = 1,
        *,
        flags: dict[str, Any] | None = None,
        group: dict[str, str] | None = None,
    ) -> None:
        self.broker = SimulatedBroker(**(flags or {}))
        self.broker.create_topic(TOPIC, partitions)
        self.partitions = partitions
        self.kept = KeptState()
        self.client = Client(self.broker)
        self.adopt()
        self.configure({"share.auto.offset.reset": "earliest", **(group or {})})

    def adopt(self) -> None:
        """After each start of the broker."""
        self.broker.broker.share_persister = self.kept
        self.broker.broker.image.features[SHARE_VERSION] = 1

    def configure(self, group: dict[str, str]) -> None:
        for name, value in group.items():
            self.broker.broker.image.replay(
                ConfigRecord(
                    resource_type=RESOURCE_GROUP, resource_name=GROUP, name=name, value=value
                )
            )
        self.shares.on_configs_changed()

    @property
    def shares(self) -> ShareDelivery:
        return self.broker.broker.shares

    def hosted(self, index: int = 0) -> HostedSharePartition:
        partition = self.broker.broker.partitions.find(TOPIC, index)
        assert partition is not None
        found = self.shares.find(GROUP, partition)
        assert found is not None
        return found

    def key(self, index: int = 0) -> SharePartitionKey:
        return SharePartitionKey(GROUP, self.client.topic_id(TOPIC), index)

    def member(self, member_id: str) -> Member:
        return Member(self.broker, member_id, self.partitions)

    def produce(self, *sizes: int, index: int = 0) -> None:
        """A batch of each size; values are offsets."""
        partition = self.broker.broker.partitions.find(TOPIC, index)
        assert partition is not None
        for size in sizes:
            start = partition.log.log_end_offset
            produced = self.client.produce(
                TOPIC, index, batch(*(str(n) for n in range(start, start + size)))
            )
            assert produced.error_code == 0


def numbers(first: int, last: int) -> Sequence[str]:
    return [str(n) for n in range(first, last + 1)]
