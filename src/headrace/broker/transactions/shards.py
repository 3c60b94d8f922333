"""The partitions of `__transaction_state` that this broker leads, and the ids they hold.

Owns: which transactional id lives where, loading and unloading, and that memory follows the log:
a state is true once the log has kept it (KAFKA-9666: an epoch bumped in memory alone).
Must not know: what requests mean, markers, the wire.
Spec: Kafka routes an id to partition abs(String.hashCode(id)) % partitions.

Invariants: an id is served only once its partition has been read to the end; one transition of
an id is on its way at a time (`pending`); nothing that an unloaded partition began ever changes
the partition when it is loaded again.
"""

from collections.abc import Callable, Iterator

from headrace.base.clock import Timers
from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.groups.shards import java_hash_magnitude
from headrace.broker.groups.store import group_error
from headrace.broker.internal_log import KeyValue, LogEntry
from headrace.broker.led_shards import LedShards, LoadInSteps
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.store import StateLog, read_state, state_record
from headrace.wire.kafka.errors import ErrorCode


class HostedTransaction:
    """A transactional id with its place and the transition that is on its way."""

    __slots__ = ("_waiters", "metadata", "pending", "shard")

    def __init__(self, shard: "TransactionShard", metadata: TransactionMetadata) -> None:
        self.shard = shard
        self.metadata = metadata
        self.pending: TransactionState | None = None
        self._waiters: list[Callable[[], None]] = []

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call it once no transition is on its way; at once if none is."""
        if self.pending is None:
            callback()
        else:
            self._waiters.append(callback)

    def release(self) -> None:
        """Let those go on who waited, until one of them begins another transition."""
        while self._waiters and self.pending is None:
            self._waiters.pop(0)()

    def abandon(self) -> None:
        """The partition is elsewhere now: those who wait will find out by asking."""
        self.pending = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()


class TransactionShard:
    """One partition's transactional ids."""

    __slots__ = ("by_id", "coordinator_epoch", "is_loading", "loaded", "partition")

    def __init__(self, partition: int, coordinator_epoch: int) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        """The leader epoch under which it was loaded; markers carry it."""
        self.is_loading = True
        self.loaded: Promise[int] = Promise()
        """Of the number of records read."""
        self.by_id: dict[str, HostedTransaction] = {}


class TransactionShards(LedShards[TransactionShard]):
    def __init__(self, log: StateLog, timers: Timers, server_version: Callable[[], int]) -> None:
        super().__init__(log, timers)
        self._log = log
        self._server_version = server_version
        self.on_loaded: Callable[[TransactionShard], None] | None = None

    # Where an id lives

    def partition_for(self, transactional_id: str) -> int:
        return java_hash_magnitude(transactional_id) % self._log.partition_count()

    def locate(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """The shard that serves an id, or why none does here and now."""
        if self._is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(transactional_id)
        if not self._log.is_local(partition):
            self.unload(partition)
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition)
        if shard is not None and shard.coordinator_epoch != self._log.leader_epoch(partition):
            # Led by somebody else in between: what is in memory may be of the past.
            self.unload(partition)
            shard = None
        if shard is None:
            self.load(partition)
            shard = self._shards.get(partition)
            if shard is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard

    def find(self, transactional_id: str) -> HostedTransaction | ErrorCode:
        """A hosted id; TRANSACTIONAL_ID_NOT_FOUND, or why nobody could know here."""
        shard = self.locate(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.by_id.get(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def host(self, shard: TransactionShard, metadata: TransactionMetadata) -> HostedTransaction:
        """Take in a new id, unless somebody was faster."""
        hosted = shard.by_id.get(metadata.transactional_id)
        if hosted is None:
            hosted = HostedTransaction(shard, metadata)
            shard.by_id[metadata.transactional_id] = hosted
        return hosted

    def forget(self, hosted: HostedTransaction) -> None:
        transactional_id = hosted.metadata.transactional_id
        if hosted.shard.by_id.get(transactional_id) is hosted:
            del hosted.shard.by_id[transactional_id]

    def hosted(self) -> Iterator[HostedTransaction]:
        for shard in self.loaded_shards():
            yield from list(shard.by_id.values())

    # Writing

    def transit(
        self, hosted: HostedTransaction, metadata: TransactionMetadata
    ) -> Promise[ErrorCode]:
        """Write the next state; it is true once the log has kept it."""
        assert hosted.pending is None, "one transition at a time"
        hosted.pending = metadata.state
        return self.write(hosted, metadata)

    def write(self, hosted: HostedTransaction, metadata: TransactionMetadata) -> Promise[ErrorCode]:
        """The same for a transition that `pending` announces already."""
        outcome: Promise[ErrorCode] = Promise()

        def on_appended(error: ErrorCode) -> None:
            if not self.is_current(hosted.shard):
                outcome.resolve(ErrorCode.NOT_COORDINATOR)
                return
            hosted.pending = None
            if error is ErrorCode.NONE:
                hosted.metadata = metadata
            outcome.resolve(error)
            hosted.release()

        record = state_record(metadata, self._server_version())
        self.append(hosted.shard, [record]).then(lambda told: on_appended(told.value()))
        return outcome

    def append(self, shard: TransactionShard, records: list[KeyValue]) -> Promise[ErrorCode]:
        """An error code in any case: a failing disk is told as Kafka tells it."""
        outcome: Promise[ErrorCode] = Promise()

        def on_appended(appended: Promise[int]) -> None:
            if isinstance(appended.error, StorageError):
                outcome.resolve(ErrorCode.NOT_COORDINATOR)
            else:
                outcome.resolve(group_error(appended.value()))

        self._log.append(shard.partition, records).then(on_appended)
        return outcome

    # Loading

    def load(self, partition: int) -> Promise[int]:
        """Read a partition from its start; a promise of the number of records."""
        shard = self._shards.get(partition)
        if shard is not None:
            return shard.loaded
        shard = TransactionShard(partition, self._log.leader_epoch(partition))
        self._shards[partition] = shard
        _Load(self, shard, self._log.read(partition)).step()
        return shard.loaded

    def unload(self, partition: int) -> None:
        """Another broker leads it now, or this one stops."""
        shard = self._shards.pop(partition, None)
        if shard is None:
            return
        for hosted in list(shard.by_id.values()):
            hosted.abandon()

    def finish_load(
        self, shard: TransactionShard, states: dict[str, TransactionMetadata], record_count: int
    ) -> None:
        for transactional_id, metadata in states.items():
            shard.by_id[transactional_id] = HostedTransaction(shard, metadata)
        shard.is_loading = False
        if self.on_loaded is not None:
            self.on_loaded(shard)
        shard.loaded.resolve(record_count)


class _Load(LoadInSteps[TransactionShard]):
    """The last word on each id wins; only that is decoded."""

    __slots__ = ("_shards", "_values")

    def __init__(
        self, shards: TransactionShards, shard: TransactionShard, records: Iterator[LogEntry]
    ) -> None:
        super().__init__(shards, shard, records)
        self._shards = shards
        self._values: dict[bytes, bytes | None] = {}

    def _take_entry(self, entry: LogEntry) -> None:
        if isinstance(entry, tuple) and entry[1] is not None:
            self._values[entry[1]] = entry[2]

    def _finish(self) -> None:
        states: dict[str, TransactionMetadata] = {}
        for key, value in self._values.items():
            read = read_state(key, value)
            if read is not None and read[1] is not None:
                states[read[0]] = read[1]
        self._shards.finish_load(self._shard, states, self._count)
