"""Transactional producers, copiers and committed readers in raw requests, for simulated runs.

Owns: what each may do next, and what it writes into the history. An answer that a kill took is
unknown: the actor asks the same again on a new connection, or dies and comes back as another
incarnation of the same transactional id. Must not know: when the broker is killed (`Plot`).
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.unit.broker.transactor import Transactor, committed_offset, visible

from headrace.testing.broker import SimulatedBroker
from headrace.testing.history import (
    Commit,
    CommittedOffset,
    History,
    Isolation,
    Outcome,
    Poll,
    Position,
    Send,
    TopicPartition,
    TransactionEnd,
)
from headrace.wire.kafka.errors import ErrorCode

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
SOURCE, SINK = "source", "sink"


class Lost(Exception):
    """The broker went away before it answered."""


@dataclass
class OpenTransaction:
    name: str
    sends: list[Send] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    is_commit: bool | None = None
    """What EndTxn asked for, once it was sent."""


class Actor:
    """A transactional producer; `step` does its next request."""

    def __init__(
        self, name: str, broker: SimulatedBroker, history: History, rng: Random, *, bumps: bool
    ) -> None:
        self.name = name
        self.broker = broker
        self.history = history
        self.rng = rng
        self.bumps = bumps
        self.incarnation = 0
        self.count = 0
        self.sequence = 0
        self.lives: Transactor | None = None
        self.transaction: OpenTransaction | None = None
        self.todo: list[Any] = []
        self.late: list[tuple[TopicPartition, bytes]] = []
        """Batches that are held up somewhere, of transactions that were aborted meanwhile."""

    # Its life

    def reconnect(self) -> None:
        """The connection is gone; the producer lives on."""
        if self.lives is not None:
            before = self.lives
            self.lives = Transactor(self.broker, self.name, bumps=self.bumps)
            self.lives.take(before.producer_id, before.producer_epoch)
            self.lives.sequences = dict(before.sequences)

    def die(self) -> None:
        """Another incarnation takes over; what this one had open is unknown to us."""
        if self.transaction is not None:
            self.settle(Outcome.INFO)
        self.lives = None
        self.todo = []

    def fail(self) -> None:
        """Fenced, or told that its transaction is not what it thinks: it has to start anew."""
        self.die()

    def step(self) -> None:
        if self.lives is None:
            self.begin_life()
        elif self.transaction is None:
            self.count += 1
            name = f"{self.name}.{self.incarnation}.{self.count}"
            self.transaction = OpenTransaction(name)
            self.todo = self.plan()
        elif self.todo:
            self.do(self.todo[0])
        else:
            self.end()

    def begin_life(self) -> None:
        one = Transactor(self.broker, self.name, bumps=self.bumps)
        error = one.init()
        if error == 0:
            self.incarnation += 1
            self.lives = one
            self.on_life()
        else:
            assert error in AGAIN, ErrorCode.of(error)

    def on_life(self) -> None:
        pass

    def plan(self) -> list[Any]:
        """Values to write: (partition, value)."""
        return [
            (
                TopicPartition(SINK, self.rng.randrange(2)),
                f"{self.name}.{self.incarnation}.{self.count}.{n}",
            )
            for n in range(self.rng.randint(1, 4))
        ]

    # Its requests

    def do(self, what: Any) -> None:
        partition, value = what
        self.write(partition, value)

    def write(self, partition: TopicPartition, value: str) -> None:
        one, transaction = self.lives, self.transaction
        assert one is not None
        assert transaction is not None
        if not self.bumps:
            (error,) = one.add(*partition).values()
            if error:
                self.on_error(error)
                return
        if not any(send.value == value for send in transaction.sends):
            self.sequence += 1
            transaction.sends.append(
                Send(
                    f"{self.name}.{self.incarnation}",
                    self.sequence,
                    value,
                    partition,
                    transaction=transaction.name,
                )
            )
        sequence = one.sequences.get(partition, 0)
        whole = one.batch(value, sequence=sequence)
        if self.rng.random() < 0.04:
            self.late.append((partition, whole))
            self.todo = []
            transaction.is_commit = False
            return
        answer = one.produce_batch(*partition, whole)
        if answer.error_code:
            self.on_error(answer.error_code)
            return
        one.sequences[partition] = sequence + 1
        transaction.sends = [
            Send(
                send.producer,
                send.sequence,
                send.value,
                send.partition,
                offset=answer.base_offset,
                transaction=send.transaction,
            )
            if send.value == value
            else send
            for send in transaction.sends
        ]
        self.todo.pop(0)

    def end(self) -> None:
        one, transaction = self.lives, self.transaction
        assert one is not None
        assert transaction is not None
        if transaction.is_commit is None:
            transaction.is_commit = self.rng.random() < 0.7
        error = one.end(commit=transaction.is_commit)
        if error:
            self.on_error(error)
            return
        self.settle(Outcome.OK)

    def arrive_late(self) -> None:
        """A batch that was held up arrives, whatever has happened since."""
        if not self.late or self.transaction is not None:
            return
        partition, whole = self.late.pop(0)
        one = Transactor(self.broker, self.name, bumps=self.bumps)
        one.produce_batch(*partition, whole)

    def on_error(self, error: int) -> None:
        if ErrorCode.of(error) not in AGAIN:
            self.fail()

    # The history

    def settle(self, outcome: Outcome) -> None:
        """The transaction is over; what was written is certain only if it was committed."""
        transaction, self.transaction = self.transaction, None
        assert transaction is not None
        is_committed = outcome is Outcome.OK and transaction.is_commit is True
        told = Outcome.OK if is_committed else Outcome.INFO
        for send in transaction.sends:
            self.history.add(
                Send(
                    send.producer,
                    send.sequence,
                    send.value,
                    send.partition,
                    told,
                    send.offset if is_committed else None,
                    transaction.name,
                )
            )
        for commit in transaction.commits:
            if outcome is Outcome.OK and not is_committed:
                continue
            self.history.add(
                Commit(
                    commit.group,
                    commit.partition,
                    commit.offset,
                    told,
                    transaction=transaction.name,
                )
            )
        if transaction.is_commit is not None:
            self.history.add(TransactionEnd(transaction.name, transaction.is_commit, outcome))
        elif outcome is Outcome.INFO and not transaction.sends:
            return


class Copier(Actor):
    """Consume, transform, produce: the offset it read up to is committed with what it wrote."""

    GROUP = "copiers"

    def on_life(self) -> None:
        self.position: int | None = None

    def plan(self) -> list[Any]:
        return ["read"]

    def do(self, what: Any) -> None:
        if what == "read":
            self.read()
        elif what == "offset":
            self.commit_offset()
        else:
            super().do(what)

    def read(self) -> None:
        one, transaction = self.lives, self.transaction
        assert one is not None
        assert transaction is not None
        if self.position is None:
            error, offset = committed_offset(one, self.GROUP, SOURCE, 0)
            if error:
                self.on_error(error)
                return
            partition = TopicPartition(SOURCE, 0)
            read_back = None if offset < 0 else offset
            self.history.add(CommittedOffset(self.GROUP, partition, read_back))
            self.history.add(Position(self.reader, (partition,)))
            self.position = max(offset, 0)
        fetched = one.fetch(SOURCE, 0, self.position, isolation_level=1, partition_max_bytes=300)
        assert fetched.error_code == 0
        seen, self.next_position = visible(fetched, self.position)
        for offset, value in seen.items():
            self.history.add(
                Poll(
                    self.reader,
                    TopicPartition(SOURCE, 0),
                    offset,
                    value,
                    transaction=transaction.name,
                    high_watermark=fetched.high_watermark,
                    last_stable_offset=fetched.last_stable_offset,
                )
            )
        if not seen and self.next_position == self.position:
            self.transaction = None
            self.count -= 1
            return
        sink = TopicPartition(SINK, 0)
        by = transaction.name
        self.todo = [*((sink, f"copy of {value} by {by}") for value in seen.values()), "offset"]

    @property
    def reader(self) -> str:
        return f"reader of {self.name}.{self.incarnation}"

    def commit_offset(self) -> None:
        one, transaction = self.lives, self.transaction
        assert one is not None
        assert transaction is not None
        if not self.bumps:
            error = one.add_offsets(self.GROUP)
            if error:
                self.on_error(error)
                return
        offset = self.next_position
        transaction.commits = [Commit(self.GROUP, TopicPartition(SOURCE, 0), offset, Outcome.INFO)]
        error = one.commit_offset(self.GROUP, SOURCE, 0, offset)
        if error:
            self.on_error(error)
            return
        self.todo.pop(0)

    def settle(self, outcome: Outcome) -> None:
        is_commit = self.transaction is not None and self.transaction.is_commit is True
        super().settle(outcome)
        if outcome is Outcome.OK and is_commit:
            self.position = self.next_position
        else:
            self.position = None


class CommittedReader:
    """Reads every partition of the sink at read_committed, from the start, for ever."""

    def __init__(self, name: str, broker: SimulatedBroker, history: History) -> None:
        self.name = name
        self.broker = broker
        self.history = history
        self.positions = {TopicPartition(SINK, 0): 0, TopicPartition(SINK, 1): 0}

    def step(self, partition: TopicPartition, max_bytes: int = 400) -> bool:
        """True if there may be more."""
        client = Transactor(self.broker, "reader")
        position = self.positions[partition]
        fetched = client.fetch(
            *partition, position, isolation_level=1, partition_max_bytes=max_bytes
        )
        assert fetched.error_code == 0
        seen, self.positions[partition] = visible(fetched, position)
        for offset, value in seen.items():
            self.history.add(
                Poll(
                    self.name,
                    partition,
                    offset,
                    value,
                    Isolation.READ_COMMITTED,
                    high_watermark=fetched.high_watermark,
                    last_stable_offset=fetched.last_stable_offset,
                )
            )
        return self.positions[partition] != position

    def drain(self) -> None:
        for partition in self.positions:
            while self.step(partition):
                pass
