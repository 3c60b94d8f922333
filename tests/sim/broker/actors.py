"""Clients of a simulated run: each writes down what it did and what it saw.

Owns: producers, consumers and committers as a seeded run drives them. Nothing here waits: an
actor feeds its requests and looks for answers whenever the run lets it.
Must not know: what is right (the checkers do).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headrace.base.errors import StorageError
from headrace.base.network import Part
from headrace.broker.session import KafkaSession
from headrace.testing.broker import LISTENER, SimulatedBroker, SimulatedClient
from headrace.testing.history import (
    Commit,
    Content,
    History,
    Outcome,
    Poll,
    Position,
    TopicPartition,
)
from headrace.testing.network import SimulatedTransport
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch, read_batches, read_records

TOPIC_IDS_SINCE = 13
IN_FLIGHT_MAX = 5
_UNSURE = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    # It may have been stored, and read, before the topic was deleted.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
_REFUSED = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,)


class Transport(SimulatedTransport):
    """As on the real network a disk that refuses in mid-answer ends the connection."""

    def send(self, parts: Sequence[Part]) -> None:
        try:
            super().send(parts)
        except StorageError as error:
            self.close(f"can't read what it asked for: {error}")


class Client(SimulatedClient):
    def __init__(self, broker: SimulatedBroker) -> None:
        super().__init__(broker)
        self.transport = Transport(lambda made: KafkaSession(broker.broker, made, LISTENER))


@dataclass(frozen=True, slots=True)
class Topic:
    """One life of a topic: another one of the same name is another topic."""

    name: str
    topic_id: bytes
    partition_count: int

    def key(self, index: int) -> TopicPartition:
        return TopicPartition(f"{self.name}#{self.topic_id.hex()[:8]}", index)


@dataclass(slots=True)
class Sent:
    """One batch on its way."""

    topic: Topic
    index: int
    batch: bytes
    tokens: list[int]
    attempts: int = 0


class Producer:
    def __init__(
        self, name: str, broker: SimulatedBroker, history: History, rng: Random, idempotent: bool
    ) -> None:
        self.name = name
        self.idempotent = idempotent
        self._history = history
        self._rng = rng
        self._made = 0
        self._in_flight: deque[Sent] = deque()
        self._sequences: dict[TopicPartition, int] = {}
        self._producer_id = -1
        self._tainted = False
        """A batch failed: the sequence has a hole, and a new producer id is needed."""
        self.may_lose_sequence = False
        """After a power cut without syncs a gap in the sequence is nobody's fault."""
        self.connect(broker)

    def connect(self, broker: SimulatedBroker) -> None:
        """A new connection; what was on its way is sent again if it can be."""
        self._broker = broker
        self._client = SimulatedClient(broker)
        self._version = self._rng.randint(3, 13)
        waiting, self._in_flight = self._in_flight, deque()
        if not self.idempotent:
            for sent in waiting:
                self._give_up(sent)
            return
        for sent in waiting:
            self._feed(sent)

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def send(self, topics: list[Topic]) -> None:
        """One to three pipelined batches, fed by one read."""
        if self._tainted and not self._in_flight:
            self._begin_anew()
        if self._tainted or (self.idempotent and self._producer_id < 0 and not self._identify()):
            return
        stream = bytearray()
        for _ in range(self._rng.randint(1, 3)):
            if len(self._in_flight) < IN_FLIGHT_MAX:
                sent = self._make(self._rng.choice(topics))
                self._in_flight.append(sent)
                sent.attempts += 1
                stream += self._frame(sent)
        self._client.transport.feed(bytes(stream))

    def collect(self) -> None:
        """Settle what was answered."""
        for answer in self._client.transport.take():
            response = self._client.read(answer, ProduceRequest, self._version)
            ((partition,),) = [topic.partition_responses for topic in response.responses]
            self._settle(self._in_flight.popleft(), partition.error_code, partition.base_offset)

    def _identify(self) -> bool:
        """Ask for a producer id. Done at once: its loss is another test's matter."""
        response = SimulatedClient(self._broker).ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4
        )
        self._producer_id = response.producer_id if response.error_code == 0 else -1
        return self._producer_id >= 0

    def _begin_anew(self) -> None:
        self._tainted = False
        self._producer_id = -1
        self._sequences.clear()

    def _make(self, topic: Topic) -> Sent:
        rng = self._rng
        index = rng.randrange(topic.partition_count)
        key = topic.key(index)
        tokens, records = [], []
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            self._made += 1
            value = f"{self.name}-{self._made}"
            content = Content(
                rng.choice((None, b"k", b"key" * 9)),
                value.encode() + b" " + b"x" * rng.choice((0, 10, 300)),
                (("h", value.encode()), ("n", None)) if rng.random() < 0.3 else (),
                self._broker.clock.now_ms() + rng.randint(-1000, 1000),
            )
            tokens.append(self._history.begin_send(self.name, value, key, content=content))
            records.append((content.key, content.value, content.headers, content.timestamp_ms or 0))
        sequence = self._sequences.get(key, 0) if self.idempotent else -1
        self._sequences[key] = sequence + len(records)
        batch = build_batch(
            records,
            compression=rng.choice(
                (Compression.NONE, Compression.NONE, Compression.LZ4, Compression.GZIP)
            ),
            producer_id=self._producer_id if self.idempotent else -1,
            producer_epoch=0 if self.idempotent else -1,
            base_sequence=sequence,
        )
        return Sent(topic, index, bytes(batch), tokens)

    def _feed(self, sent: Sent) -> None:
        self._in_flight.append(sent)
        sent.attempts += 1
        self._client.transport.feed(self._frame(sent))

    def _frame(self, sent: Sent) -> bytes:
        topic_id = sent.topic.topic_id if self._version >= TOPIC_IDS_SINCE else bytes(16)
        data = [PartitionProduceData(index=sent.index, records=sent.batch)]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=sent.topic.name, topic_id=topic_id, partition_data=data)
            ],
        )
        return self._client.frame(request, self._version)

    def _settle(self, sent: Sent, error_code: int, base_offset: int) -> None:
        key = sent.topic.key(sent.index)
        if error_code == 0 and self._is_another_life(sent):
            # Sent by name to a topic that was made anew: it is stored, but not where we think.
            error_code = ErrorCode.KAFKA_STORAGE_ERROR
        if error_code == 0:
            for position, token in enumerate(sent.tokens):
                self._history.send_ok(token, key, base_offset + position)
            return
        assert error_code in _UNSURE or error_code in _REFUSED, f"{self.name}: error {error_code}"
        if error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            assert self._tainted or self.may_lose_sequence, f"{self.name}: a hole in the sequence"
        self._tainted = self.idempotent
        if error_code in _REFUSED and sent.attempts == 1:
            for token in sent.tokens:
                self._history.send_failed(token)
        else:
            self._give_up(sent)

    def _is_another_life(self, sent: Sent) -> bool:
        topic = self._broker.broker.image.topics_by_name.get(sent.topic.name)
        return topic is None or topic.topic_id != sent.topic.topic_id

    def _give_up(self, sent: Sent) -> None:
        for token in sent.tokens:
            self._history.send_unknown(token)


@dataclass(slots=True)
class Asked:
    """A fetch on its way: what was wanted, by what version."""

    version: int
    wanted: dict[tuple[bytes, int], int] = field(default_factory=dict)


class Consumer:
    """Reads every partition it is told of, with or without a session."""

    def __init__(
        self, name: str, broker: SimulatedBroker, history: History, rng: Random, in_session: bool
    ) -> None:
        self.name = name
        self._history = history
        self._rng = rng
        self._in_session = in_session
        self.positions: dict[tuple[bytes, int], int] = {}
        self._topics: dict[bytes, Topic] = {}
        self._names: dict[bytes, str] = {}
        self.connect(broker)

    def connect(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._client = Client(broker)
        self._version = self._rng.randint(7 if self._in_session else 4, 18)
        self._asked: Asked | None = None
        self._session_id = 0
        self._epoch = 0
        self._told: dict[tuple[bytes, int], int] = {}

    def follow(self, topics: Iterable[Topic]) -> None:
        """What exists now; positions in what is gone are forgotten."""
        self._topics = {topic.topic_id: topic for topic in topics}
        self._names |= {topic.topic_id: topic.name for topic in self._topics.values()}
        self.positions = {
            (topic.topic_id, index): self.positions.get((topic.topic_id, index), 0)
            for topic in self._topics.values()
            for index in range(topic.partition_count)
        }

    def step_back(self, ends: Mapping[TopicPartition, int]) -> None:
        """Logs end earlier than before: as a client does that learns of another leader epoch."""
        for (topic_id, index), position in self.positions.items():
            key = self._topics[topic_id].key(index)
            if position > ends[key]:
                self.positions[topic_id, index] = ends[key]
                self._history.add(Position(self.name, (key,)))

    def fetch(self) -> None:
        if self._asked is not None or not self.positions:
            return
        rng = self._rng
        request = FetchRequest(
            max_wait_ms=rng.choice((0, 100)),
            min_bytes=rng.choice((0, 1, 500)),
            max_bytes=rng.choice((1, 1000, 1 << 20)),
            isolation_level=rng.randint(0, 1),
        )
        news = dict(self.positions)
        if self._in_session:
            request.session_id, request.session_epoch = self._session_id, self._epoch
            gone = [where for where in self._told if where not in self.positions]
            request.forgotten_topics_data = [
                ForgottenTopic(topic=self._name_of(i), topic_id=i, partitions=[index])
                for i, index in gone
            ]
            if self._epoch > 0:
                news = {k: v for k, v in self.positions.items() if self._told.get(k) != v}
            self._told = dict(self.positions)
        max_bytes = rng.choice((1, 600, 1 << 20))
        request.topics = [
            FetchTopic(
                topic=self._name_of(topic_id),
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
            for (topic_id, index), offset in news.items()
        ]
        if self._version < TOPIC_IDS_SINCE:
            for named in request.topics:
                named.topic_id = bytes(16)
            for left in request.forgotten_topics_data:
                left.topic_id = bytes(16)
        self._asked = Asked(self._version, dict(self.positions))
        self._client.transport.feed(self._client.frame(request, self._version))

    def _name_of(self, topic_id: bytes) -> str:
        """Also of a topic that is gone: it has to be forgotten by its name."""
        return self._names[topic_id]

    def collect(self) -> None:
        for answer in self._client.transport.take():
            assert self._asked is not None
            asked, self._asked = self._asked, None
            response = self._client.read(answer, FetchRequest, asked.version)
            self._on_response(asked, response)
        if self._client.transport.close_reason is not None:
            self.connect(self._broker)  # the disk refused in the middle of an answer

    def _on_response(self, asked: Asked, response: Any) -> None:
        if response.error_code:
            assert self._in_session
            self._session_id, self._epoch, self._told = 0, 0, {}
            return
        if self._in_session:
            self._session_id = response.session_id
            self._epoch += 1
        for topic in response.responses:
            for partition in topic.partitions:
                where = self._where(asked, topic, partition.partition_index)
                if where is not None and where in self.positions:
                    self._on_partition(where, asked.wanted[where], partition)

    def _where(self, asked: Asked, topic: Any, index: int) -> tuple[bytes, int] | None:
        if asked.version >= TOPIC_IDS_SINCE:
            where = (bytes(topic.topic_id), index)
            return where if where in asked.wanted else None
        # By name a client can't tell one life of a topic from the next; only its image can.
        image = self._broker.broker.image.topics_by_name.get(topic.topic)
        if image is None or (image.topic_id, index) not in asked.wanted:
            return None
        return image.topic_id, index

    def _on_partition(
        self, where: tuple[bytes, int], asked_offset: int, partition: PartitionData
    ) -> None:
        key = self._topics[where[0]].key(where[1])
        if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            found = self._broker.broker.partitions.find(*where)
            if found is not None:
                log = found.log
                behind = asked_offset > log.log_start_offset
                self.positions[where] = log.log_end_offset if behind else log.log_start_offset
                self._told.pop(where, None)
                self._history.add(Position(self.name, (key,)))
            return
        if partition.error_code:
            return
        position = self.positions[where]
        for _, batch in read_batches(partition.records or b""):
            for record in read_records(batch):
                if record.offset < position:
                    continue
                position = record.offset + 1
                self._history.add(seen(self.name, key, record, partition))
        self.positions[where] = position


def seen(consumer: str, key: TopicPartition, record: Any, partition: PartitionData) -> Poll:
    value = (record.value or b"").split(b" ")[0].decode()
    return Poll(
        consumer,
        key,
        record.offset,
        value,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        content=Content(record.key, record.value, tuple(record.headers), record.timestamp),
    )


class Committer:
    """Commits rising offsets of a group without members, as a simple consumer does."""

    def __init__(self, group: str, broker: SimulatedBroker, history: History) -> None:
        self.group = group
        self._history = history
        self._next = 1
        self._in_flight: deque[Commit] = deque()
        self.connect(broker)

    def connect(self, broker: SimulatedBroker) -> None:
        self._client = SimulatedClient(broker)
        for commit in self._in_flight:
            self._history.add(commit)  # its outcome is INFO
        self._in_flight.clear()

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def commit(self, topic: Topic) -> None:
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._next)
        request = OffsetCommitRequest(
            group_id=self.group,
            topics=[OffsetCommitRequestTopic(name=topic.name, partitions=[row])],
        )
        self._in_flight.append(Commit(self.group, topic.key(0), self._next, Outcome.INFO))
        self._next += 1
        self._client.transport.feed(self._client.frame(request, 8))

    def collect(self) -> None:
        for answer in self._client.transport.take():
            response = self._client.read(answer, OffsetCommitRequest, 8)
            commit = self._in_flight.popleft()
            code = response.topics[0].partitions[0].error_code
            # Refused by a failing disk it may have been written all the same.
            outcome = Outcome.INFO if code else Outcome.OK
            self._history.add(Commit(commit.group, commit.partition, commit.offset, outcome))
