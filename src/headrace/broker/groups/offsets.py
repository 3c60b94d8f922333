"""The offsets one group has committed, and which of them may be forgotten.

Owns: committed offsets by topic and partition, in the order in which they reached the log, and
those that open transactions will commit or not.
Must not know: the log, clocks, membership beyond what `Expiry` says.
Spec: Kafka's OffsetMetadataManager; KIP-211 (retention counts from when the group is empty),
KIP-98 and KIP-447 (offsets of a transaction, and readers that wait for its end).

Invariants (L17): what was committed later in the log wins, whatever the order in which the log
confirms; an offset with a commit on its way is not expired, or its tombstone would follow
the new commit and erase it at the next load.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.group import Group, GroupState

NO_OFFSET = -1
NO_EXPIRY = -1

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    """Only commits of old clients (versions 2-4) carry their own retention."""
    topic_id: bytes = bytes(16)


class _InFlight:
    """Changes of one partition's offset that the log has not confirmed yet."""

    __slots__ = ("applied_ticket", "count")

    def __init__(self) -> None:
        self.count = 0
        self.applied_ticket = -1


class PendingOffset:
    """An offset that an open transaction has written: it counts from the marker on."""

    __slots__ = ("committed", "is_superseded", "ticket")

    def __init__(self, committed: CommittedOffset, ticket: int) -> None:
        self.committed = committed
        self.ticket = ticket
        self.is_superseded = False
        """A commit without a transaction came later in the log: that one stands."""


class OffsetTable:
    __slots__ = ("_by_topic", "_in_flight", "_next_ticket", "_pending")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self._in_flight: dict[TopicPartition, _InFlight] = {}
        self._pending: dict[int, dict[TopicPartition, PendingOffset]] = {}
        """By the id of the producer whose transaction is open."""
        self._next_ticket = 0

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self._by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def by_topic(self) -> dict[str, dict[int, CommittedOffset]]:
        """Everything, to be read only."""
        return self._by_topic

    def __iter__(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self._by_topic.items():
            for partition, committed in partitions.items():
                yield (topic, partition), committed

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    @property
    def is_empty(self) -> bool:
        """Nothing is committed and nothing is on its way."""
        return not self._by_topic and not self._in_flight and not self._pending

    def keys(self) -> list[TopicPartition]:
        """Of everything that the log may hold: what is committed and what is on its way."""
        found = dict.fromkeys(key for key, _ in self)
        found.update(dict.fromkeys(self._in_flight))
        for offsets in self._pending.values():
            found.update(dict.fromkeys(offsets))
        return list(found)

    @property
    def has_any_in_flight(self) -> bool:
        return bool(self._in_flight)

    def has_in_flight(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self._in_flight

    # Changes: `begin` when they are appended, `end` when the log has confirmed or refused them.

    def begin(self, keys: Collection[TopicPartition]) -> int:
        """Note that changes of these are on their way; the ticket says in which order."""
        ticket = self._next_ticket
        self._next_ticket += 1
        for key in keys:
            in_flight = self._in_flight.get(key)
            if in_flight is None:
                in_flight = self._in_flight[key] = _InFlight()
            in_flight.count += 1
        return ticket

    def end(
        self,
        ticket: int,
        changes: Mapping[TopicPartition, CommittedOffset | None],
        *,
        is_kept: bool,
    ) -> None:
        """Apply what the log kept, unless something later has been applied already."""
        for key, committed in changes.items():
            in_flight = self._in_flight[key]
            if is_kept and ticket > in_flight.applied_ticket:
                in_flight.applied_ticket = ticket
                self._put(key, committed, ticket)
            in_flight.count -= 1
            if in_flight.count == 0:
                del self._in_flight[key]

    def put(self, topic: str, partition: int, committed: CommittedOffset | None) -> None:
        """What the log says next, None for a tombstone."""
        self._put((topic, partition), committed, self._next_ticket)
        self._next_ticket += 1

    def _put(self, key: TopicPartition, committed: CommittedOffset | None, ticket: int) -> None:
        topic, partition = key
        if self._pending:
            self._supersede(key, ticket, is_gone=committed is None)
        if committed is not None:
            self._by_topic.setdefault(topic, {})[partition] = committed
            return
        partitions = self._by_topic.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self._by_topic.pop(topic, None)

    # Offsets of open transactions

    @property
    def has_any_pending(self) -> bool:
        return bool(self._pending)

    def has_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this offset."""
        return any((topic, partition) in offsets for offsets in self._pending.values())

    def add_pending(
        self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> int:
        """A transaction's offsets are appended; the ticket takes them back if the log refuses."""
        ticket = self._next_ticket
        self._next_ticket += 1
        of_producer = self._pending.setdefault(producer_id, {})
        for key, committed in offsets.items():
            of_producer[key] = PendingOffset(committed, ticket)
        return ticket

    def drop_pending(self, producer_id: int, ticket: int) -> None:
        """The log refused them."""
        of_producer = self._pending.get(producer_id, {})
        for key in [key for key, pending in of_producer.items() if pending.ticket == ticket]:
            del of_producer[key]
        if not of_producer:
            self._pending.pop(producer_id, None)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> bool:
        """The marker is in the log; False if the producer had nothing pending here."""
        offsets = self._pending.pop(producer_id, None)
        if offsets is None:
            return False
        if is_commit:
            for key, pending in offsets.items():
                if not pending.is_superseded:
                    self._materialize(key, pending)
        return True

    def _materialize(self, key: TopicPartition, pending: PendingOffset) -> None:
        in_flight = self._in_flight.get(key)
        if in_flight is not None:
            if pending.ticket <= in_flight.applied_ticket:
                return
            in_flight.applied_ticket = pending.ticket
        self._put(key, pending.committed, pending.ticket)

    def _supersede(self, key: TopicPartition, ticket: int, *, is_gone: bool) -> None:
        """What stands earlier in the log than this commit will not come after it."""
        for producer_id, offsets in list(self._pending.items()):
            pending = offsets.get(key)
            if pending is None or pending.ticket > ticket:
                continue
            if not is_gone:
                pending.is_superseded = True
                continue
            del offsets[key]
            if not offsets:
                del self._pending[producer_id]


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a group's state says about its offsets' age."""

    retention_ms: int
    empty_since_ms: int | None = None
    """Age counts from here; None: from each commit."""
    kept_topics: frozenset[str] = frozenset()
    """Topics that members read, however old the commit."""

    def has_expired(self, topic: str, committed: CommittedOffset, wall_ms: int) -> bool:
        if topic in self.kept_topics:
            return False
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return wall_ms >= committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms
        if self.empty_since_ms is not None:
            # A commit to an empty group (a reset) is younger than its emptiness.
            since_ms = max(since_ms, self.empty_since_ms)
        return wall_ms - since_ms >= self.retention_ms


def expiry_of(group: Group | ConsumerGroup, retention_ms: int) -> Expiry | None:
    """How a group's offsets age now; None while they must not.

    A classic group that rebalances keeps everything: its members have left for a moment only.
    In a consumer group age counts from each commit, and what members read does not age.
    """
    if isinstance(group, ConsumerGroup):
        return Expiry(retention_ms, kept_topics=group.subscribed_topics())
    if group.protocol_type is None:
        # Nobody ever joined: commits of an administrator or of a self-assigned consumer.
        return Expiry(retention_ms)
    if group.state is GroupState.EMPTY:
        return Expiry(retention_ms, empty_since_ms=group.state_since_ms)
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return Expiry(retention_ms, kept_topics=group.subscribed_topics)
    return None


def expired_offsets(table: OffsetTable, expiry: Expiry, wall_ms: int) -> list[TopicPartition]:
    return [
        (topic, partition)
        for (topic, partition), committed in table
        if not table.has_in_flight(topic, partition)
        and not table.has_pending(topic, partition)
        and expiry.has_expired(topic, committed, wall_ms)
    ]
