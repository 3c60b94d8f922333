"""Clients of a simulated cluster: they retry as real ones do and remember what they were told.

Owns: producers (idempotent with acks=all, or plain with acks=1) and consumers. Must not know: what
is committed; `truth` and the last reading judge what they remember.

Metadata is that of whatever broker a client looks at, which may be behind.
"""

from typing import TYPE_CHECKING, Any

from headrace.broker.api.registry import SERVED
from headrace.testing.cluster_simulation.peers import carry_frame
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch, read_batches, read_records

if TYPE_CHECKING:
    from headrace.testing.cluster_simulation.world import World

Key = tuple[bytes, int]
REQUEST_TIMEOUT_MS = 1_500
PRODUCE_TIMEOUT_MS = 1_000
RETRY_MS = 60
CLIENT_IDS_FROM = 100
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_NEVER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""With one batch under way at a time, only lost records explain these; or a leader of the past, who
lacks what came after it."""


class Client:
    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.client_id = CLIENT_IDS_FROM + number
        self.is_stopped = False
        self._epochs: dict[Key, int] = {}

    def start(self) -> None:
        raise NotImplementedError

    def leader_of(self, key: Key) -> tuple[int, int]:
        """(leader, leader epoch) as some broker has it, unless this client knows of a later epoch;
        -1 for none."""
        serving = [node for node in self.world.running if node.is_serving]
        if not serving:
            return -1, -1
        broker = self.world.dice.choice(serving).assembled.broker
        assert broker is not None
        topic = broker.image.topics_by_id.get(key[0])
        if topic is None or topic.partitions[key[1]].leader not in self.world.nodes:
            return -1, -1
        described = topic.partitions[key[1]]
        if described.leader_epoch < self._epochs.get(key, -1):
            return -1, -1
        self._epochs[key] = described.leader_epoch
        return described.leader, described.leader_epoch

    def ask(
        self, node_id: int, request: Message, on_response: Any, version: int | None = None
    ) -> None:
        """The response, or None after the time-out or where nobody listens; once."""
        is_open = True

        def end(response: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                on_response(response)

        target = self.world.nodes[node_id]
        if not target.is_up:
            self.world.schedule(5, end, None)
            return
        self.world.schedule(REQUEST_TIMEOUT_MS, end, None)
        if version is None:
            version = SERVED[request.API_KEY][1]
        carry_frame(self.world, self.client_id, target, request, version, end)


class Producer(Client):
    def __init__(self, world: "World", number: int, keys: list[Key], acks: int, gap_ms: int):
        super().__init__(world, number)
        self.acks = acks
        self._keys = keys
        self._gap_ms = gap_ms
        self._producer_id = -1
        self._sequences: dict[Key, int] = dict.fromkeys(keys, 0)
        self._made = 0
        self.acked: list[tuple[Key, int, bytes]] = []
        """(partition, offset or -1, value), in the order of their sending."""
        self.waiting_count = 0
        self.sent: dict[Key, list[bytes]] = {key: [] for key in keys}

    def start(self) -> None:
        if self.acks == -1:
            self._identify()
        else:
            for key in self._keys:
                self._produce(key)

    def _identify(self) -> None:
        serving = [node.node_id for node in self.world.running if node.is_serving]
        if self.is_stopped or not serving:
            self.world.schedule(RETRY_MS, self._identify)
            return

        def on_response(response: Any) -> None:
            if response is None or response.error_code:
                self.world.schedule(RETRY_MS, self._identify)
                return
            self._producer_id = response.producer_id
            for key in self._keys:
                self._produce(key)

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.ask(self.world.dice.choice(serving), request, on_response)

    def _produce(self, key: Key) -> None:
        """One batch after the other."""
        if self.is_stopped:
            return
        count = self.world.dice.randint(1, 3)
        values = []
        for _ in range(count):
            self._made += 1
            values.append(b"%d:%d" % (self.client_id, self._made))
        is_idempotent = self._producer_id >= 0
        now_ms = self.world.clock.now_ms()
        batch = bytes(
            build_batch(
                [(None, value, (), now_ms) for value in values],
                producer_id=self._producer_id,
                producer_epoch=0 if is_idempotent else -1,
                base_sequence=self._sequences[key] if is_idempotent else -1,
            )
        )
        self._sequences[key] += count
        self.sent[key] += values
        self.waiting_count += 1
        self._send(key, batch, values)

    def _send(self, key: Key, batch: bytes, values: list[bytes]) -> None:
        leader, _ = self.leader_of(key)
        epoch = self._true_epoch(leader, key)
        if leader < 0:
            self.world.schedule(RETRY_MS, self._send, key, batch, values)
            return
        row = PartitionProduceData(index=key[1], records=batch)
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic_id=key[0], partition_data=[row])],
        )

        def on_response(response: Any) -> None:
            if epoch >= 0 and epoch == self._true_epoch(leader, key):
                self._check_sequence(response, key)
            self._on_response(response, key, batch, values)

        self.ask(leader, request, on_response)

    def _true_epoch(self, node_id: int, key: Key) -> int:
        """In which epoch that node leads, if it knows and it is so; else -1."""
        node, image = self.world.nodes.get(node_id), self.world.image
        if node is None or not node.is_serving or image is None:
            return -1
        described = image.topics_by_id[key[0]].partitions[key[1]]
        broker = node.assembled.broker
        partition = None if broker is None else broker.partitions.find(*key)
        if partition is None or not partition.is_leader or described.leader != node_id:
            return -1
        same = partition.leader_epoch == described.leader_epoch
        return described.leader_epoch if same else -1

    def _check_sequence(self, response: Any, key: Key) -> None:
        """The leader that it was sent to lacks what came before."""
        row = None if response is None else response.responses[0].partition_responses[0]
        if row is not None and row.error_code in _NEVER:
            name = ErrorCode.of(row.error_code).name
            raise Violation("L1", f"producer {self.client_id} is told {name} at {key[1]}")

    def _on_response(self, response: Any, key: Key, batch: bytes, values: list[bytes]) -> None:
        row = None if response is None else response.responses[0].partition_responses[0]
        error = ErrorCode.NONE if row is None else ErrorCode.of(row.error_code)
        if row is None or (error and error is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if self.acks == -1:
                delay_ms = RETRY_MS // 2 + self.world.dice.randrange(RETRY_MS)
                self.world.schedule(delay_ms, self._send, key, batch, values)
                return
        else:
            base_offset = row.base_offset
            for index, value in enumerate(values):
                offset = base_offset + index if base_offset >= 0 else -1
                self.acked.append((key, offset, value))
        self.waiting_count -= 1
        self.world.schedule(1 + self.world.dice.randrange(2 * self._gap_ms), self._produce, key)


class PartitionReader(Client):
    """Reads one partition from the start, for ever; a subclass looks at what comes."""

    def __init__(self, world: "World", number: int, key: Key, *, committed: bool):
        super().__init__(world, number)
        self._key = key
        self._committed = committed
        self.position = 0

    def start(self) -> None:
        self._fetch()

    def _fetch(self) -> None:
        leader, epoch = self.leader_of(self._key)
        if leader < 0:
            self.world.schedule(RETRY_MS, self._fetch)
            return
        self._look_beside(leader, epoch)
        wanted = FetchPartition(
            partition=self._key[1],
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            partition_max_bytes=self.world.dice.choice((1, 500, 1 << 20)),
        )
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic_id=self._key[0], partitions=[wanted])],
        )
        self.ask(leader, request, self._on_response)

    def _on_response(self, response: Any) -> None:
        row = None
        if response is not None and not response.error_code and response.responses:
            row = response.responses[0].partitions[0]
        if row is None or row.error_code:
            if row is not None and row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation("L1", f"{self._key[1]}: offset {self.position} is out of range")
            self.world.schedule(RETRY_MS, self._fetch)
            return
        self._take(row)
        self.world.schedule(1 + self.world.dice.randrange(40), self._fetch)

    def _look_beside(self, leader: int, epoch: int) -> None:
        """What else is asked before a fetch."""

    def _take(self, row: Any) -> None:
        raise NotImplementedError


class Consumer(PartitionReader):
    def __init__(self, world: "World", number: int, key: Key, topic: str, *, committed: bool):
        super().__init__(world, number, key, committed=committed)
        self._topic = topic
        self._end_seen = 0
        self.read_count = 0

    def _look_beside(self, leader: int, epoch: int) -> None:
        if self.world.dice.random() < 0.05:
            self._list_end(leader, epoch)

    def _take(self, row: Any) -> None:
        truth = self.world.truth.of(self._key)
        for header, batch in read_batches(row.records or b""):
            known = truth.batches.get(header.base_offset)
            if known is None or header.next_offset > row.high_watermark:
                raise Violation("L10", f"{self._topic}: {header.base_offset} is read uncommitted")
            if known[0] != header.crc:
                raise Violation("L2", f"{self._topic}: another content at {header.base_offset}")
            if header.base_offset > self.position:
                raise Violation(
                    "L6", f"{self._topic}: {header.base_offset} follows {self.position}"
                )
            self.read_count += sum(1 for _ in read_records(batch))
            self.position = max(self.position, header.next_offset)

    def _list_end(self, leader: int, epoch: int) -> None:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=self._topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=self._key[1], current_leader_epoch=epoch, timestamp=-1
                        )
                    ],
                )
            ],
        )
        asked_at = self._end_seen

        def on_response(response: Any) -> None:
            if response is None or not response.topics:
                return
            row = response.topics[0].partitions[0]
            if row.error_code or row.offset < 0:
                return
            if row.offset < asked_at:
                raise Violation("L19", f"{self._topic} ends at {row.offset}, before at {asked_at}")
            self._end_seen = max(self._end_seen, row.offset)

        self.ask(leader, request, on_response)
