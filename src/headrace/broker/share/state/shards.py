"""The partitions of `__share_group_state` that this broker leads, and the states they hold.

Owns: which share-partition lives where, loading and unloading, and that nobody is told what the
log has not kept. Must not know: what requests mean, the wire.
Spec: Kafka routes a key to partition abs(String.hashCode("group:topicId:partition")) % partitions.

A record is replayed when it is appended, so that the next decision sees it; what is answered waits
until it is kept. If the log refuses at once nothing has happened; if it fails later, what was
decided in between is wrong too, and the partition is read anew.

Invariants: a share-partition is served only once its partition has been read to the end.
`snapshot_offset` is that of a snapshot which is kept: nothing at or after it may be pruned.
"""

from collections.abc import Callable, Iterator

from headrace.base.clock import Timers
from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.groups.shards import java_hash_magnitude
from headrace.broker.groups.store import group_error
from headrace.broker.internal_log import LogEntry
from headrace.broker.share.persister import SharePartitionKey
from headrace.broker.share.state.key import coordinator_key
from headrace.broker.share.state.records import StateRecord, encode, read_record
from headrace.broker.share.state.share_state import ShareState, replayed
from headrace.broker.share.state.store import ShareStateLog
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_records import ShareSnapshotValue

LOAD_STEP_RECORDS_MAX = 2_000
KEPT: Promise[int] = Promise.resolved(0)


class HostedState:
    """A share-partition's state with the last write of it."""

    __slots__ = ("last_write", "snapshot_offset", "state")

    def __init__(self, state: ShareState, snapshot_offset: int) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset
        self.last_write = KEPT


class StateShard:
    """One partition's share-partitions."""

    __slots__ = ("by_key", "is_loading", "leader_epoch", "loaded", "partition")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.is_loading = True
        self.loaded: Promise[int] = Promise()
        """Of the number of records read."""
        self.by_key: dict[SharePartitionKey, HostedState] = {}

    def replay(self, record: StateRecord, offset: int) -> None:
        key, value = record
        if value is None:
            self.by_key.pop(key, None)
            return
        hosted = self.by_key.get(key)
        if hosted is None:
            self.by_key[key] = HostedState(replayed(None, value), offset)
        else:
            hosted.state = replayed(hosted.state, value)


class StateShards:
    def __init__(self, log: ShareStateLog, timers: Timers) -> None:
        self._log = log
        self._timers = timers
        self._shards: dict[int, StateShard] = {}
        self._is_closed = False

    # Where a state lives

    def partition_for(self, key: SharePartitionKey) -> int:
        return java_hash_magnitude(coordinator_key(key)) % self._log.partition_count()

    def locate(self, key: SharePartitionKey) -> StateShard | ErrorCode:
        """The shard that serves a key, or why none does here and now."""
        if self._is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(key)
        if not self._log.is_local(partition):
            self.unload(partition)
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition)
        if shard is not None and shard.leader_epoch != self._log.leader_epoch(partition):
            # Led by somebody else in between: what is in memory may be of the past.
            self.unload(partition)
            shard = None
        if shard is None:
            self.load(partition)
            shard = self._shards.get(partition)
            if shard is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard

    def loaded(self) -> Iterator[StateShard]:
        for shard in list(self._shards.values()):
            if not shard.is_loading:
                yield shard

    def is_current(self, shard: StateShard) -> bool:
        return self._shards.get(shard.partition) is shard

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # Writing

    def append(self, shard: StateShard, records: list[StateRecord]) -> Promise[ErrorCode]:
        """An error code in any case: a failing disk is told as Kafka tells it."""
        first_offset = self._log.end_offset(shard.partition)
        appended = self._append(shard.partition, [encode(record) for record in records])
        if appended.settled and appended.value():
            return appended.map(group_error)
        for offset, record in enumerate(records, first_offset):
            shard.replay(record, offset)
            hosted = shard.by_key.get(record[0])
            if hosted is not None:
                hosted.last_write = appended

        def on_appended(settled: Promise[int]) -> None:
            if settled.value():
                self._reload(shard)
                return
            for offset, (key, value) in enumerate(records, first_offset):
                hosted = shard.by_key.get(key)
                if hosted is not None and isinstance(value, ShareSnapshotValue):
                    hosted.snapshot_offset = max(hosted.snapshot_offset, offset)

        appended.then(on_appended)
        return appended.map(group_error)

    def _append(self, partition: int, records: list[tuple[bytes, bytes | None]]) -> Promise[int]:
        outcome: Promise[int] = Promise()

        def on_appended(appended: Promise[int]) -> None:
            if isinstance(appended.error, StorageError):
                outcome.resolve(int(ErrorCode.KAFKA_STORAGE_ERROR))
            else:
                outcome.resolve(appended.value())

        self._log.append(partition, records).then(on_appended)
        return outcome

    def prune(self, shard: StateShard) -> None:
        """Delete what no state needs any more."""
        hosted = shard.by_key.values()
        end_offset = self._log.end_offset(shard.partition)
        before = min((each.snapshot_offset for each in hosted), default=end_offset)
        self._log.prune(shard.partition, before)

    # Loading

    def load_local(self) -> None:
        """Begin to load every partition that this broker leads and has not loaded yet."""
        for partition in range(self._log.partition_count()):
            if (
                partition not in self._shards
                and not self._is_closed
                and self._log.is_local(partition)
            ):
                self.load(partition)

    def load(self, partition: int) -> Promise[int]:
        """Read a partition from its start; a promise of the number of records."""
        shard = self._shards.get(partition)
        if shard is not None:
            return shard.loaded
        shard = StateShard(partition, self._log.leader_epoch(partition))
        self._shards[partition] = shard
        _Load(self, shard, self._log.read(partition)).step()
        return shard.loaded

    def unload(self, partition: int) -> None:
        """Another broker leads it now, or this one stops."""
        self._shards.pop(partition, None)

    def _reload(self, shard: StateShard) -> None:
        if self.is_current(shard):
            self.unload(shard.partition)
            if not self._is_closed and self._log.is_local(shard.partition):
                self.load(shard.partition)

    def unload_lost(self) -> None:
        """Let go of partitions that are here no longer."""
        for partition in list(self._shards):
            if not self._log.is_local(partition):
                self.unload(partition)

    def close(self) -> None:
        self._is_closed = True
        self._shards.clear()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._timers.call_soon(callback)

    def fail_load(self, shard: StateShard, error: StorageError) -> None:
        self._shards.pop(shard.partition, None)
        shard.loaded.reject(error)


class _Load:
    """One partition's reading, in bounded steps."""

    __slots__ = ("_count", "_records", "_shard", "_shards")

    def __init__(self, shards: StateShards, shard: StateShard, records: Iterator[LogEntry]) -> None:
        self._shards = shards
        self._shard = shard
        self._records = records
        self._count = 0

    def step(self) -> None:
        if not self._shards.is_current(self._shard):
            return
        try:
            is_done = self._read_some()
        except StorageError as error:
            self._shards.fail_load(self._shard, error)
            return
        if is_done:
            self._shard.is_loading = False
            self._shard.loaded.resolve(self._count)
        else:
            self._shards.call_soon(self.step)

    def _read_some(self) -> bool:
        for _ in range(LOAD_STEP_RECORDS_MAX):
            entry = next(self._records, None)
            if entry is None:
                return True
            self._count += 1
            if not isinstance(entry, tuple) or entry[1] is None:
                continue
            offset, key, value = entry
            assert key is not None
            record = read_record(key, value)
            if record is None:
                continue
            self._shard.replay(record, offset)
            hosted = self._shard.by_key.get(record[0])
            if hosted is not None and isinstance(record[1], ShareSnapshotValue):
                hosted.snapshot_offset = offset
        return False
