"""What clients did and saw, written down for the checkers.

Owns: the events of one run, in the order in which they ended. Must not know: any client library,
or what is right; `checkers` judges.

Every send ends `OK`, `FAIL` (definitely not done) or `INFO` (unknown: time-out, lost connection).
A send that was never settled is `INFO`: unknown may appear or not, once. Values are unique over
a run; that is what makes a history checkable.

Invariants: an event is never changed once recorded; recording is safe from several threads,
because delivery callbacks come on the client library's own.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar


class Outcome(Enum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(Enum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Content(NamedTuple):
    """The bytes of a record that must come out as they went in. `None` fields are not compared."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """One value, sent. `sequence` is the order of the calls, not of the answers."""

    producer: str
    sequence: int
    value: str
    partition: TopicPartition | None
    outcome: Outcome = Outcome.INFO
    offset: int | None = None
    transaction: str | None = None
    content: Content | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """One record, received. The watermarks are those the client knew when it received it."""

    consumer: str
    partition: TopicPartition
    offset: int
    value: str
    isolation: Isolation = Isolation.READ_COMMITTED
    transaction: str | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    content: Content | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A consumer starts anew: it was assigned partitions, sought, or was reset."""

    consumer: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    transaction: str
    committed: bool
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Commit:
    """A group's offset, committed. `is_reset` marks one that may go back on purpose."""

    group: str
    partition: TopicPartition
    offset: int
    outcome: Outcome
    is_reset: bool = False
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's offset, read back; `None` when the broker knows of none."""

    group: str
    partition: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a member held in one generation of its group."""

    group: str
    generation: int
    member: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndOffset:
    """ListOffsets(latest) as one client saw it; `None` while the broker says it does not know."""

    client: str
    partition: TopicPartition
    offset: int | None


Event = Send | Poll | Position | TransactionEnd | Commit | CommittedOffset | Ownership | EndOffset
E = TypeVar("E", bound=Event)


class History:
    """The events of a run. Record with `add`, or sends with `begin_send` and what settles it."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = list(events)
        self._open: dict[int, Send] = {}
        self._sequence = 0
        # Counted as they come: a test that waits for a load asks often, of a long history.
        self._settled = Counter(e.outcome for e in self._events if isinstance(e, Send))

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            if isinstance(event, Send):
                self._settled[event.outcome] += 1

    def begin_send(
        self,
        producer: str,
        value: str,
        partition: TopicPartition | None = None,
        *,
        transaction: str | None = None,
        content: Content | None = None,
    ) -> int:
        """A send was called; returns the token that settles it."""
        with self._lock:
            self._sequence += 1
            self._open[self._sequence] = Send(
                producer,
                self._sequence,
                value,
                partition,
                transaction=transaction,
                content=content,
            )
            return self._sequence

    def send_ok(self, token: int, partition: TopicPartition, offset: int | None) -> None:
        self._settle(token, Outcome.OK, partition, offset)

    def send_failed(self, token: int) -> None:
        """Definitely not done: refused by the broker, or never handed to the network."""
        self._settle(token, Outcome.FAIL)

    def send_unknown(self, token: int) -> None:
        self._settle(token, Outcome.INFO)

    def events(self, kind: type[E]) -> Iterator[E]:
        """Events of one kind, as they ended."""
        return (event for event in self.all_events() if isinstance(event, kind))

    def all_events(self) -> list[Event]:
        """Everything as it ended; sends still open come last, as unknown."""
        with self._lock:
            return [*self._events, *self._open.values()]

    def count(self, outcome: Outcome) -> int:
        """Sends with that outcome; one still open counts as unknown."""
        with self._lock:
            still_open = len(self._open) if outcome is Outcome.INFO else 0
            return self._settled[outcome] + still_open

    def _settle(
        self,
        token: int,
        outcome: Outcome,
        partition: TopicPartition | None = None,
        offset: int | None = None,
    ) -> None:
        with self._lock:
            send = self._open.pop(token)
            self._settled[outcome] += 1
            where = partition if partition is not None else send.partition
            self._events.append(replace(send, outcome=outcome, partition=where, offset=offset))
