"""A produce load with its history: what the fault tests run while they break the broker.

Owns: one librdkafka producer and one consumer, each on a thread of its own, and what they wrote
into a `History`. Must not know: which faults are injected.
"""

import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Part
from tests.interop.confluent import PATIENCE

from headrace.testing.history import History, Outcome, Poll, Position, TopicPartition

NEVER_SENT = {"_PURGE_QUEUE"}
"""Librdkafka's word for a message that never left: the only failure that is certain."""


class ProduceLoad:
    """Sends unique values to every partition, as fast as the queue takes them."""

    def __init__(
        self, servers: str, topic: str, partitions: int, history: History, *, idempotent: bool
    ) -> None:
        self._topic, self._partitions, self._history = topic, partitions, history
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

    def _run(self) -> None:
        while not self._stop.is_set():
            partition = self.sent_count % self._partitions
            value = f"v{self.sent_count}"
            where = TopicPartition(self._topic, partition)
            token = self._history.begin_send("producer", value, where)
            try:
                self._producer.produce(
                    self._topic,
                    value + "-" * 200,
                    partition=partition,
                    on_delivery=lambda error, message, token=token: self._settle(
                        token, error, message
                    ),
                )
            except BufferError:
                self._history.send_failed(token)
                self._producer.poll(0.01)
                # The same value must not be sent again: it is on record as failed.
            self.sent_count += 1
            self._producer.poll(0)

    def _settle(self, token: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            where = TopicPartition(message.topic() or "", message.partition() or 0)
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._history.send_ok(token, where, known)
        elif error.name() in NEVER_SENT:
            self._history.send_failed(token)
        else:
            self._history.send_unknown(token)


class TailReader:
    """A consumer that follows every partition from its start, through all faults."""

    def __init__(self, servers: str, topic: str, partitions: int, history: History) -> None:
        self._history = history
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
        self._stop.set()
        self._thread.join(timeout_s)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.05):
                error = message.error()
                if error is not None:
                    # Lost connections heal; an offset that is gone does not.
                    if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                        self.errors.append(str(error))
                    continue
                record_poll(self._history, "tail", message)
                self._seen[message.partition() or 0] = message.offset() or 0


def record_poll(history: History, consumer: str, message: Message) -> None:
    where = TopicPartition(message.topic() or "", message.partition() or 0)
    value = (message.value() or b"").rstrip(b"-").decode()
    history.add(Poll(consumer, where, message.offset() or 0, value))


def acknowledged_count(history: History) -> int:
    return history.count(Outcome.OK)
