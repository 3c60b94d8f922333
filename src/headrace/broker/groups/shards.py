"""The partitions of `__consumer_offsets` that this broker leads, and the groups they hold.

Owns: which group lives where, loading and unloading, and waking groups at their deadlines.
Must not know: what requests mean, the wire.
Spec: Kafka routes a group to partition abs(String.hashCode(group id)) % partitions.

Invariants: a group is served only once its partition has been read to the end; whoever
waited in an unloaded partition has been told to look for the new coordinator. Loading goes in
bounded steps, so that a long partition does not hold the loop.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.broker.groups import session
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.group import Group, Saved
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.offsets import OffsetTable
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.store import (
    ConsumerEntry,
    GroupEntry,
    OffsetEntry,
    OffsetsLog,
    ShareEntry,
    group_error,
    group_record,
    read_entry,
    restore,
)
from headrace.broker.internal_log import (
    KeyValue,
    LogEntry,
    TransactionalRecord,
    TransactionMarker,
)
from headrace.broker.led_shards import LedShards, LoadInSteps, error_of
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.coordinator_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataValue,
    ShareGroupMetadataKey,
)

AnyGroup = Group | ConsumerGroup | ShareGroup


class HostedGroup:
    """A group with its offsets, its place and its alarm. Its kind may change while it runs."""

    __slots__ = ("group", "last_write", "offsets", "shard", "timer", "timer_deadline_ms")

    def __init__(self, shard: "Shard", group: AnyGroup, offsets: OffsetTable) -> None:
        self.shard = shard
        self.group = group
        self.offsets = offsets
        self.last_write: Promise[int] = Promise.resolved(0)
        """Of a consumer or share group: what its state says may be told once this is kept."""
        self.timer: Timer | None = None
        self.timer_deadline_ms = 0


class Shard:
    """One partition's groups."""

    __slots__ = ("groups", "is_loading", "loaded", "open_transactions", "partition")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.open_transactions: dict[int, set[str]] = {}
        """Groups with pending offsets, by the id of the producer whose transaction is open."""
        self.is_loading = True
        self.loaded: Promise[int] = Promise()
        """Of the number of records read."""
        self.groups: dict[str, HostedGroup] = {}


class Shards(LedShards[Shard]):
    def __init__(
        self,
        settings: GroupSettings,
        offsets_log: OffsetsLog,
        clock: Clock,
        timers: Timers,
        random: Random,
    ) -> None:
        super().__init__(offsets_log, timers)
        self.settings = settings
        self._log = offsets_log
        self._clock = clock
        self._random = random
        self.wake_consumer: Callable[[HostedGroup], None] = lambda _: None
        """Called when a consumer group's deadline has come."""
        self.on_loaded: Callable[[HostedGroup], None] = lambda _: None
        """Called for each consumer group that was read from the log."""
        self.wake_share: Callable[[HostedGroup], None] = lambda _: None
        self.on_share_loaded: Callable[[HostedGroup], None] = lambda _: None
        """The same for share groups."""

    def now(self) -> Instant:
        return Instant(self._clock.monotonic_ms(), self._clock.now_ms())

    # Where a group lives

    def partition_for(self, group_id: str) -> int:
        return java_hash_magnitude(group_id) % self._log.partition_count()

    def locate(self, group_id: str) -> Shard | ErrorCode:
        """The shard that serves a group, or why none does here and now."""
        if self._is_closed or self._log.partition_count() == 0:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(group_id)
        shard = self._shards.get(partition)
        if shard is None:
            if not self._log.is_local(partition):
                return ErrorCode.NOT_COORDINATOR
            self.load(partition)
            shard = self._shards.get(partition)
            if shard is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if shard.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return shard

    def find(self, group_id: str) -> HostedGroup | ErrorCode:
        """A hosted group; GROUP_ID_NOT_FOUND, or why nobody could know here."""
        shard = self.locate(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.groups.get(group_id, ErrorCode.GROUP_ID_NOT_FOUND)

    def find_or_create(self, group_id: str) -> HostedGroup | ErrorCode:
        shard = self.locate(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        hosted = shard.groups.get(group_id)
        return self._host(shard, group_id, OffsetTable()) if hosted is None else hosted

    def new_classic(self, hosted: HostedGroup) -> Group:
        """A fresh classic group in a place that a consumer group leaves; not yet hosted."""

        def save(group: Group, assignments: Mapping[str, bytes]) -> Promise[Saved]:
            return self._save(hosted, group, assignments)

        return Group(hosted.group.group_id, self.settings, save, self.new_uuid)

    def hosted(self) -> Iterator[HostedGroup]:
        for shard in self.loaded_shards():
            yield from list(shard.groups.values())

    def at(self, partition: int) -> Shard | None:
        """The loaded shard of a partition; None if it is not here or not yet."""
        if partition not in self._shards and not self._is_closed and self._log.is_local(partition):
            self.load(partition)
        shard = self._shards.get(partition)
        return None if shard is None or shard.is_loading else shard

    def forget(self, hosted: HostedGroup) -> None:
        group_id = hosted.group.group_id
        if hosted.shard.groups.get(group_id) is hosted:
            del hosted.shard.groups[group_id]
        self._disarm(hosted)

    def forget_if_unused(self, hosted: HostedGroup) -> None:
        """Ids that were only asked for, by commits that failed or members that never came."""
        if hosted.group.is_forgotten and hosted.offsets.is_empty:
            self.forget(hosted)

    def _host(self, shard: Shard, group_id: str, offsets: OffsetTable) -> HostedGroup:
        def save(group: Group, assignments: Mapping[str, bytes]) -> Promise[Saved]:
            return self._save(hosted, group, assignments)

        group = Group(group_id, self.settings, save, self.new_uuid)
        hosted = shard.groups[group_id] = HostedGroup(shard, group, offsets)
        return hosted

    def new_uuid(self) -> str:
        bits = self._random.getrandbits(128)
        # The marks of a random UUID: version 4, variant 1.
        bits = bits & ~(0xF << 76) | 4 << 76
        bits = bits & ~(0x3 << 62) | 2 << 62
        text = f"{bits:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    # Writing

    def append(
        self,
        shard: Shard,
        records: list[KeyValue],
        producer: tuple[int, int] | None = None,
    ) -> Promise[int]:
        """An error code in any case: a failing disk is told as Kafka tells it.

        With a producer (id and epoch) the records belong to its open transaction."""
        if producer is None:
            return error_of(self._log.append(shard.partition, records))
        producer_id, producer_epoch = producer
        return error_of(
            self._log.append(
                shard.partition, records, producer_id=producer_id, producer_epoch=producer_epoch
            )
        )

    def _save(
        self, hosted: HostedGroup, group: Group, assignments: Mapping[str, bytes]
    ) -> Promise[Saved]:
        saved: Promise[Saved] = Promise()

        def on_appended(appended: Promise[int]) -> None:
            saved.resolve(Saved(group_error(appended.value()), self.now()))
            self.arm(hosted)

        self.append(hosted.shard, [group_record(group, assignments)]).then(on_appended)
        return saved

    # Waking

    def arm(self, hosted: HostedGroup) -> None:
        """See to it that the group is woken at its next deadline."""
        deadline_ms = hosted.group.next_deadline_ms
        if deadline_ms is None or self._shards.get(hosted.shard.partition) is not hosted.shard:
            return
        if hosted.timer is not None:
            if hosted.timer_deadline_ms <= deadline_ms:
                return
            hosted.timer.cancel()
        hosted.timer_deadline_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        hosted.timer = self._timers.call_later(delay_ms, lambda: self._wake(hosted))

    def _wake(self, hosted: HostedGroup) -> None:
        hosted.timer = None
        if isinstance(hosted.group, ConsumerGroup):
            self.wake_consumer(hosted)
        elif isinstance(hosted.group, ShareGroup):
            self.wake_share(hosted)
        else:
            session.on_deadline(hosted.group, self.now())
        self.arm(hosted)
        self.forget_if_unused(hosted)

    def _disarm(self, hosted: HostedGroup) -> None:
        if hosted.timer is not None:
            hosted.timer.cancel()
            hosted.timer = None

    # Loading

    def load(self, partition: int) -> Promise[int]:
        """Read a partition from its start; a promise of the number of records."""
        shard = self._shards.get(partition)
        if shard is not None:
            return shard.loaded
        shard = self._shards[partition] = Shard(partition)
        _Load(self, shard, self._log.read(partition)).step()
        return shard.loaded

    def unload(self, partition: int) -> None:
        """Another broker leads it now, or this one stops."""
        shard = self._shards.pop(partition, None)
        if shard is None:
            return
        for hosted in list(shard.groups.values()):
            self._disarm(hosted)
            if isinstance(hosted.group, ConsumerGroup | ShareGroup):
                hosted.group.is_dead = True
            else:
                session.abandon(hosted.group, ErrorCode.NOT_COORDINATOR, self.now())
        shard.groups.clear()

    def finish_load(
        self,
        shard: Shard,
        groups: dict[str, GroupMetadataValue],
        consumer_groups: dict[str, ConsumerGroup],
        share_groups: dict[str, ShareGroup],
        offsets: dict[str, OffsetTable],
        open_transactions: dict[int, set[str]],
        record_count: int,
    ) -> None:
        now = self.now()
        shard.open_transactions = open_transactions
        for group_id in {**groups, **consumer_groups, **share_groups, **offsets}:
            # Not `or`: a table whose offsets are all pending has none to count.
            table = offsets.get(group_id, OffsetTable())
            value = groups.get(group_id)
            consumer_group = consumer_groups.get(group_id)
            share_group = share_groups.get(group_id)
            is_known = value is not None or consumer_group is not None or share_group is not None
            if not is_known and table.is_empty:
                continue
            hosted = self._host(shard, group_id, table)
            if share_group is not None:
                hosted.group = share_group
                self.on_share_loaded(hosted)
            elif consumer_group is not None:
                hosted.group = consumer_group
                self.on_loaded(hosted)
            elif value is not None:
                assert isinstance(hosted.group, Group)
                restore(hosted.group, value, now)
        shard.is_loading = False
        for hosted in shard.groups.values():
            self.arm(hosted)
        shard.loaded.resolve(record_count)


class _Load(LoadInSteps[Shard]):
    """The last word on each key wins."""

    __slots__ = (
        "_consumer_groups",
        "_groups",
        "_offsets",
        "_open",
        "_shards",
        "_share_groups",
    )

    def __init__(self, shards: Shards, shard: Shard, records: Iterator[LogEntry]) -> None:
        super().__init__(shards, shard, records)
        self._shards = shards
        self._groups: dict[str, GroupMetadataValue] = {}
        self._consumer_groups: dict[str, ConsumerGroup] = {}
        self._share_groups: dict[str, ShareGroup] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self._open: dict[int, set[str]] = {}

    def _finish(self) -> None:
        self._shards.finish_load(
            self._shard,
            self._groups,
            self._consumer_groups,
            self._share_groups,
            self._offsets,
            self._open,
            self._count,
        )

    def _take_entry(self, entry: LogEntry) -> None:
        match entry:
            case TransactionMarker():
                self._end_transaction(entry.producer_id, entry.is_commit)
            case TransactionalRecord():
                self._take_pending(entry)
            case (_, key, value) if key is not None:
                self._take(key, value)

    def _take_pending(self, record: TransactionalRecord) -> None:
        if record.key is None:
            return
        entry = read_entry(record.key, record.value)
        if not isinstance(entry, OffsetEntry) or entry.committed is None:
            return
        table = self._offsets.setdefault(entry.group_id, OffsetTable())
        table.add_pending(record.producer_id, {(entry.topic, entry.partition): entry.committed})
        self._open.setdefault(record.producer_id, set()).add(entry.group_id)

    def _end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for group_id in self._open.pop(producer_id, ()):
            self._offsets[group_id].end_transaction(producer_id, is_commit=is_commit)

    def _take(self, key: bytes, value: bytes | None) -> None:
        match read_entry(key, value):
            case OffsetEntry(group_id, topic, partition, committed):
                table = self._offsets.setdefault(group_id, OffsetTable())
                table.put(topic, partition, committed)
            case GroupEntry(group_id, None):
                self._groups.pop(group_id, None)
            case GroupEntry(group_id, metadata):
                assert metadata is not None
                self._groups[group_id] = metadata
            case ConsumerEntry(group_id, (ConsumerGroupMetadataKey(), None)):
                self._consumer_groups.pop(group_id, None)
            case ConsumerEntry(group_id, (_, None)) if group_id not in self._consumer_groups:
                pass
            case ConsumerEntry(group_id, record):
                group = self._consumer_groups.get(group_id)
                if group is None:
                    group = self._consumer_groups[group_id] = ConsumerGroup(group_id)
                group.replay(record)
            case ShareEntry(group_id, (ShareGroupMetadataKey(), None)):
                self._share_groups.pop(group_id, None)
            case ShareEntry(group_id, (_, None)) if group_id not in self._share_groups:
                pass
            case ShareEntry(group_id, record):
                self._share_groups.setdefault(group_id, ShareGroup(group_id)).replay(record)
            case None:
                pass


@lru_cache(maxsize=10_000)
def java_hash_magnitude(text: str) -> int:
    """abs(String.hashCode()) as Kafka takes it: over UTF-16 units, in 32 bits, 0 for the lowest."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    if code >= 0x80000000:
        code = 0x100000000 - code
    return 0 if code == 0x80000000 else code
