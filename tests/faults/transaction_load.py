"""A load of transactions with its history: what fault tests run while they break the broker.

Owns: librdkafka's transactional producers, each on a thread of its own with a consumer that reads
inside the transactions, and what they wrote into a `History`. Must not know: which faults are
injected.

A transaction ends committed or aborted for certain, or nobody knows how: then its producer is
replaced by another of the same transactional id, which ends what was left open. So is a producer
that is silent for `STALL_S`: with any broker, Kafka's too, librdkafka may forget an
AddOffsetsToTxn that a lost connection took, and wait for ever. What a transaction did is written
down when it has ended: acknowledged is what was committed.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Part
from tests.faults.load import PADDING, patiently, record_poll, value_of
from tests.interop.confluent import PATIENCE

from headrace.testing.history import (
    Commit,
    CommittedOffset,
    History,
    Outcome,
    Poll,
    Position,
    Send,
    TopicPartition,
    TransactionEnd,
)

STEP_TIMEOUT_S = 60.0
STALL_S = 15.0
OFFSETS = 0.3
"""The share of transactions that commit an offset too, where they may."""
COMMITS = 0.7
"""The share of transactions that are to be committed."""
SENDS_MAX = 6
READS_MAX = 10


class Unknown(Exception):
    """Nobody knows how the transaction ended."""


@dataclass
class Open:
    """A transaction, and what it has sent so far by value."""

    name: str
    sends: dict[str, Send] = field(default_factory=dict)
    offset: int | None = None
    """Of its id's group, if it commits one."""
    is_commit: bool | None = None
    """What its end was asked to be, once it was asked."""


class TransactionLoad:
    """One transactional id: sends, reads inside the transaction, and commits or aborts."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        history: History,
        *,
        transactional_id: str,
        seed: int,
        with_offsets: bool = False,
    ) -> None:
        self._servers, self._topic, self._partitions = servers, topic, partitions
        self._history, self._id = history, transactional_id
        self._chance, self._with_offsets = random.Random(seed), with_offsets
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=self._id, daemon=True)
        self._count = self._sequence = self._incarnation = 0
        self._lock = threading.Lock()
        self._open: Open | None = None
        self._heard_s = 0.0
        self._reader = self._new_reader()
        self.ends: Counter[str] = Counter()
        """Transactions by how they ended: committed, aborted, unknown."""
        self.errors: list[str] = []

    def start(self) -> None:
        where = tuple(TopicPartition(self._topic, each) for each in range(self._partitions))
        self._history.add(Position(self._reader_name, where))
        self._thread.start()

    def stop(self) -> None:
        """No new transactions; wait for the last, end what was left open, read the offset back."""
        self._stop.set()
        self._thread.join(4 * STEP_TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self._id} hangs"
        self._new_producer()
        (read,) = patiently(lambda: self._reader.committed([Part(self._topic, 0)], STEP_TIMEOUT_S))
        offset = read.offset if read.offset >= 0 else None
        where = TopicPartition(self._topic, 0)
        self._history.add(CommittedOffset(self._group, where, offset))
        self._reader.close()

    def _supervise(self) -> None:
        while not self._stop.is_set():
            self._incarnation += 1
            self._heard_s = time.monotonic()
            worker = threading.Thread(target=self._run, args=(self._incarnation,), daemon=True)
            worker.start()
            while worker.is_alive() and time.monotonic() - self._heard_s < STALL_S:
                worker.join(0.05)
            if worker.is_alive():
                self.errors.append("it stalled")
                with self._lock:
                    self._incarnation += 1  # whatever the old one still does is not counted
                    self._settle(Outcome.INFO)

    def _run(self, incarnation: int) -> None:
        """Transactions of one producer, until one of them fails."""
        producer = self._new_producer()
        while not self._stop.is_set():
            self._heard_s = time.monotonic()
            self._count += 1
            transaction = self._open = Open(f"{self._id}.{self._count}")
            outcome = Outcome.OK
            try:
                self._transact(producer, transaction)
            except (Unknown, KafkaException) as error:
                # Librdkafka's name for it; its sentences tell how long it waited, too.
                cause = error.args[0]
                self.errors.append(cause.name() if isinstance(cause, KafkaError) else str(cause))
                outcome = Outcome.INFO
            with self._lock:
                if incarnation != self._incarnation:
                    return
                self._settle(outcome)
            if outcome is Outcome.INFO:
                return

    # One transaction

    def _transact(self, producer: Producer, transaction: Open) -> None:
        """Returns when its end is certain."""
        producer.begin_transaction()
        for number in range(self._chance.randint(1, SENDS_MAX)):
            self._send(producer, transaction, f"{transaction.name}.{number}")
            producer.poll(0)
        self._read(transaction)
        try:
            if self._with_offsets and self._chance.random() < OFFSETS:
                self._commit_offset(producer, transaction)
            self._end(producer, transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            transaction.is_commit = False
            _insist(producer.abort_transaction)

    def _commit_offset(self, producer: Producer, transaction: Open) -> None:
        transaction.offset = self._count
        offsets = [Part(self._topic, 0, transaction.offset)]
        group = self._reader.consumer_group_metadata()
        _insist(lambda timeout: producer.send_offsets_to_transaction(offsets, group, timeout))

    def _end(self, producer: Producer, transaction: Open) -> None:
        transaction.is_commit = self._chance.random() < COMMITS
        if not transaction.is_commit:
            # Written, for somebody to read it who must not.
            producer.flush(STEP_TIMEOUT_S)
        _insist(
            producer.commit_transaction if transaction.is_commit else producer.abort_transaction
        )

    def _send(self, producer: Producer, transaction: Open, value: str) -> None:
        where = TopicPartition(self._topic, self._chance.randrange(self._partitions))
        self._sequence += 1
        name = f"{self._id}/{self._incarnation}"
        transaction.sends[value] = Send(
            name, self._sequence, value, where, transaction=transaction.name
        )

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None and offset >= 0:
                transaction.sends[value] = replace(transaction.sends[value], offset=offset)

        producer.produce(
            where.topic, value + PADDING, partition=where.partition, on_delivery=on_delivery
        )

    def _read(self, transaction: Open) -> None:
        for message in self._reader.consume(READS_MAX, 0.01):
            if message.error() is None:
                where = TopicPartition(message.topic() or "", message.partition() or 0)
                offset, value = message.offset() or 0, value_of(message.value())
                self._history.add(
                    Poll(self._reader_name, where, offset, value, transaction=transaction.name)
                )

    def _settle(self, outcome: Outcome) -> None:
        transaction, self._open = self._open, None
        if transaction is None:
            return
        is_certain = outcome is Outcome.OK
        is_committed = is_certain and transaction.is_commit is True
        told = Outcome.OK if is_committed else Outcome.INFO
        for send in transaction.sends.values():
            # What did not stay has no place that anybody may ask for.
            offset = send.offset if is_committed else None
            self._history.add(replace(send, outcome=told, offset=offset))
        if transaction.offset is not None and (is_committed or not is_certain):
            where = TopicPartition(self._topic, 0)
            commit = Commit(
                self._group, where, transaction.offset, told, transaction=transaction.name
            )
            self._history.add(commit)
        if transaction.is_commit is not None:
            self._history.add(TransactionEnd(transaction.name, transaction.is_commit, outcome))
        how = "committed" if is_committed else "aborted" if is_certain else "unknown"
        self.ends[how] += 1

    # Its clients

    @property
    def _reader_name(self) -> str:
        return f"reader of {self._id}"

    @property
    def _group(self) -> str:
        return f"group of {self._id}"

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self._id,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "transaction.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                **PATIENCE,
            }
        )
        _insist(producer.init_transactions)
        return producer

    def _new_reader(self) -> Consumer:
        reader = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 20,
                **PATIENCE,
            }
        )
        reader.assign([Part(self._topic, each, 0) for each in range(self._partitions)])
        return reader


def _insist(act: Callable[[float], object]) -> None:
    """Librdkafka's transactional calls may be repeated while their error is retriable."""
    deadline_s = time.monotonic() + STEP_TIMEOUT_S
    while True:
        try:
            act(STEP_TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline_s:
                raise Unknown(str(error)) from error
        else:
            return


def read_committed(servers: str, topic: str, partitions: int, history: History) -> None:
    """Everything up to the last stable offset, by a reader that comes afterwards."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **PATIENCE,
        }
    )
    reader.assign([Part(topic, each, 0) for each in range(partitions)])
    left = set(range(partitions))
    deadline_s = time.monotonic() + STEP_TIMEOUT_S
    while left:
        assert time.monotonic() < deadline_s, f"the ends of {left} were not reached"
        for message in patiently(lambda: reader.consume(500, 0.1)):
            error = message.error()
            if error is None:
                record_poll(history, "afterwards", message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
    reader.close()


def open_transactions(servers: str, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Partitions whose last stable offset is not their end, with both."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        settings = {"group.id": "unused", "isolation.level": isolation, **PATIENCE}
        asker = Consumer({"bootstrap.servers": servers, **settings})
        told = {
            each: int(asker.get_watermark_offsets(Part(topic, each), STEP_TIMEOUT_S)[1])
            for each in range(partitions)
        }
        ends.append(told)
        asker.close()
    stable, last = ends
    return {each: (stable[each], last[each]) for each in last if stable[each] != last[each]}
