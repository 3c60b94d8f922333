"""A produce load with its history: what the fault tests run while they break the broker.

Owns: a librdkafka producer and a consumer, each on a thread of its own, a watcher that asks
between faults, and what they all wrote into a `History`. Must not know: which faults are injected.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Part
from tests.interop.confluent import PATIENCE, TIMEOUT_S

from headrace.testing.history import (
    Commit,
    CommittedOffset,
    EndOffset,
    History,
    Outcome,
    Poll,
    Position,
    TopicPartition,
)

T = TypeVar("T")

NEVER_SENT = {"_PURGE_QUEUE"}
"""Librdkafka's word for a message that never left: the only failure that is certain."""

NOT_YET = {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
NOT_YET |= {"_TRANSPORT", "_ALL_BROKERS_DOWN", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"}

PADDING = "-" * 200


def value_of(raw: bytes | None) -> str:
    """The unique part of a record's value."""
    return (raw or b"").rstrip(b"-").decode()


class AcknowledgementGaps:
    """The longest time that a partition acknowledged nothing, from one `begin` to the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_s: dict[int, float] = {}
        self._longest_s: dict[int, float] = {}
        self._counts: Counter[int] = Counter()

    def begin(self) -> None:
        with self._lock:
            self._longest_s.clear()

    def on_acknowledged(self, partition: int) -> None:
        now_s = time.monotonic()
        with self._lock:
            gap_s = now_s - self._last_s.get(partition, now_s)
            self._longest_s[partition] = max(gap_s, self._longest_s.get(partition, 0.0))
            self._last_s[partition] = now_s
            self._counts[partition] += 1

    def count(self, partition: int) -> int:
        """Everything it ever acknowledged."""
        with self._lock:
            return self._counts[partition]

    def longest_s(self) -> float:
        with self._lock:
            return max(self._longest_s.values(), default=0.0)


class ProduceLoad:
    """Sends unique values to every partition, as fast as the queue takes them or with pauses."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        history: History,
        *,
        idempotent: bool,
        pause_s: float = 0.0,
        settings: Mapping[str, int] | None = None,
    ) -> None:
        self._topic, self._partitions, self._history = topic, partitions, history
        self._pause_s = pause_s
        self.gaps = AcknowledgementGaps()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 100,
                "queue.buffering.max.messages": 500,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                **PATIENCE,
                **(settings or {}),
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="produce-load", daemon=True)
        self.sent_count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 60.0) -> None:
        """No new sends; wait until every one sent is settled."""
        self._stop.set()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the load did not stop"
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{left} sends never settled"

    def abandon(self) -> None:
        """No new sends and no patience: what is open stays unknown."""
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._producer.purge()
        self._producer.flush(1)

    def _run(self) -> None:
        while not self._stop.is_set():
            partition = self.sent_count % self._partitions
            value = f"v{self.sent_count}"
            where = TopicPartition(self._topic, partition)
            token = self._history.begin_send("producer", value, where)
            try:
                self._producer.produce(
                    self._topic,
                    value + PADDING,
                    partition=partition,
                    on_delivery=lambda error, message, token=token: self._settle(
                        token, error, message
                    ),
                )
            except BufferError:
                self._history.send_failed(token)
                self._producer.poll(0.01)
            # Sent or refused, the value is used up: it is on record.
            self.sent_count += 1
            self._producer.poll(0)
            if self._pause_s:
                self._stop.wait(self._pause_s)

    def _settle(self, token: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            where = TopicPartition(message.topic() or "", message.partition() or 0)
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._history.send_ok(token, where, known)
            self.gaps.on_acknowledged(where.partition)
        elif error.name() in NEVER_SENT:
            self._history.send_failed(token)
        else:
            self._history.send_unknown(token)


class TailReader:
    """A consumer that follows every partition from its start, through all faults."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        history: History,
        *,
        notes_ends: bool = True,
    ) -> None:
        """`notes_ends`: with each record the high watermark that librdkafka knew after it. Not
        where leadership is handed over all the time: a new leader's begins a little behind the old
        one's, and then it says nothing of a record that came from the old one."""
        self._history = history
        self._notes_ends = notes_ends
        self._parts = [Part(topic, partition, 0) for partition in range(partitions)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 50,
                **PATIENCE,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail-reader", daemon=True)
        self._seen: dict[int, int] = {}
        self.errors: list[str] = []

    def start(self) -> None:
        self._consumer.assign(self._parts)
        where = tuple(TopicPartition(part.topic, part.partition) for part in self._parts)
        self._history.add(Position("tail", where))
        self._thread.start()

    def drain(self, end_offsets: dict[int, int], timeout_s: float = 60.0) -> None:
        """Wait until everything below the given ends was read, then close."""
        deadline = time.monotonic() + timeout_s
        while any(self._seen.get(p, -1) + 1 < end for p, end in end_offsets.items()):
            assert time.monotonic() < deadline, f"read up to {self._seen}, not {end_offsets}"
            self._stop.wait(0.02)
        self.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(500, 0.05)
            ends = self._known_ends({message.partition() or 0 for message in messages})
            for message in messages:
                error = message.error()
                if error is not None:
                    # Lost connections heal; an offset that is gone does not.
                    if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                        self.errors.append(str(error))
                    continue
                partition = message.partition() or 0
                record_poll(self._history, "tail", message, ends.get(partition))
                self._seen[partition] = message.offset() or 0

    def _known_ends(self, partitions: set[int]) -> dict[int, int]:
        """The high watermarks that came with the fetches, as far as librdkafka kept them."""
        ends: dict[int, int] = {}
        for partition in partitions if self._notes_ends else ():
            part = Part(self._parts[0].topic, partition)
            watermarks = self._consumer.get_watermark_offsets(part, cached=True)
            if watermarks is not None and watermarks[1] >= 0:
                ends[partition] = watermarks[1]
        return ends


class Watcher:
    """Between faults: commits a growing offset, reads it back, and asks where partitions end."""

    def __init__(self, servers: str, topic: str, partitions: int, history: History) -> None:
        self._history, self._group = history, "watcher"
        self._parts = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._client = Consumer({"bootstrap.servers": servers, "group.id": self._group, **PATIENCE})
        self._commits = 0

    def commit(self) -> None:
        self._commits += 1
        for part in self._parts:
            outcome = Outcome.OK
            try:
                offset = Part(part.topic, part.partition, self._commits)
                self._client.commit(offsets=[offset], asynchronous=False)
            except KafkaException:
                outcome = Outcome.INFO
            self._history.add(Commit(self._group, part, self._commits, outcome))

    def look(self) -> None:
        asked = [Part(part.topic, part.partition) for part in self._parts]
        for read in patiently(lambda: self._client.committed(asked, TIMEOUT_S)):
            offset = read.offset if read.offset >= 0 else None
            where = TopicPartition(read.topic, read.partition)
            self._history.add(CommittedOffset(self._group, where, offset))
        for part in self._parts:
            self._history.add(EndOffset(self._group, part, self._end_of(Part(*part))))

    def _end_of(self, part: Part) -> int:
        def ask() -> int:
            # Librdkafka does not ask again who leads when the leader it knew has left the cluster.
            self._client.list_topics(part.topic, timeout=TIMEOUT_S)
            return int(self._client.get_watermark_offsets(part, TIMEOUT_S)[1])

        return patiently(ask)

    def close(self) -> None:
        self._client.close()


def patiently(ask: Callable[[], T], timeout_s: float = 60.0) -> T:
    """Ask again while the broker says "not yet", as after a restart it may."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            is_temporary = error.args[0].retriable() or error.args[0].name() in NOT_YET
            if not is_temporary or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def record_poll(
    history: History, consumer: str, message: Message, high_watermark: int | None = None
) -> None:
    where = TopicPartition(message.topic() or "", message.partition() or 0)
    offset, value = message.offset() or 0, value_of(message.value())
    history.add(Poll(consumer, where, offset, value, high_watermark=high_watermark))


def await_acknowledged(history: History, count: int, timeout_s: float = 60.0) -> None:
    """Wait until `count` more sends are acknowledged: a fault in an idle broker proves nothing."""
    wanted = history.count(Outcome.OK) + count
    deadline = time.monotonic() + timeout_s
    while history.count(Outcome.OK) < wanted:
        assert time.monotonic() < deadline, "the load is not acknowledged any more"
        time.sleep(0.01)
