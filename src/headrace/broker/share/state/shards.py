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

from headrace.base.clock import Timers
from headrace.base.promise import Promise
from headrace.broker.groups.shards import java_hash_magnitude
from headrace.broker.groups.store import group_error
from headrace.broker.internal_log import LogEntry
from headrace.broker.led_shards import LedShards, LoadInSteps, error_of
from headrace.broker.share.persister import SharePartitionKey
from headrace.broker.share.state.key import coordinator_key
from headrace.broker.share.state.records import StateRecord, encode, read_record
from headrace.broker.share.state.share_state import ShareState, replayed
from headrace.broker.share.state.store import ShareStateLog
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_records import ShareSnapshotValue

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


class StateShards(LedShards[StateShard]):
    def __init__(self, log: ShareStateLog, timers: Timers) -> None:
        super().__init__(log, timers)
        self._log = log

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

    # Writing

    def append(self, shard: StateShard, records: list[StateRecord]) -> Promise[ErrorCode]:
        """An error code in any case: a failing disk is told as Kafka tells it."""
        first_offset = self._log.end_offset(shard.partition)
        encoded = [encode(record) for record in records]
        appended = error_of(self._log.append(shard.partition, encoded))
        if appended.settled and appended.value():
            return appended.map(group_error)
        for offset, record in enumerate(records, first_offset):
            shard.replay(record, offset)
            hosted = shard.by_key.get(record[0])
            if hosted is not None:
                hosted.last_write = appended

        def on_appended(settled: Promise[int]) -> None:
            if settled.value():
                self.reload(shard)
                return
            for offset, (key, value) in enumerate(records, first_offset):
                hosted = shard.by_key.get(key)
                if hosted is not None and isinstance(value, ShareSnapshotValue):
                    hosted.snapshot_offset = max(hosted.snapshot_offset, offset)

        appended.then(on_appended)
        return appended.map(group_error)

    def prune(self, shard: StateShard) -> None:
        """Delete what no state needs any more."""
        hosted = shard.by_key.values()
        end_offset = self._log.end_offset(shard.partition)
        before = min((each.snapshot_offset for each in hosted), default=end_offset)
        self._log.prune(shard.partition, before)

    # Loading

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


class _Load(LoadInSteps[StateShard]):
    def _take_entry(self, entry: LogEntry) -> None:
        if not isinstance(entry, tuple) or entry[1] is None:
            return
        offset, key, value = entry
        assert key is not None
        record = read_record(key, value)
        if record is None:
            return
        self._shard.replay(record, offset)
        hosted = self._shard.by_key.get(record[0])
        if hosted is not None and isinstance(record[1], ShareSnapshotValue):
            hosted.snapshot_offset = offset

    def _finish(self) -> None:
        self._shard.is_loading = False
        self._shard.loaded.resolve(self._count)
