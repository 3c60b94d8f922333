"""The share coordinator: the state of share-partitions kept, told, fenced.

Owns: what is asked of states that don't exist, are being loaded, or live elsewhere; and the upkeep
of the topic. Must not know: versions, the wire, other brokers (`routing`).
Spec: KIP-932; Kafka's ShareCoordinatorService. Every answer is a promise that is never rejected.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.promise import Promise
from headrace.broker.groups.settings import Config
from headrace.broker.groups.vanished_topics import VanishedTopics
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.broker.share.state.records import StateRecord
from headrace.broker.share.state.shards import HostedState, StateShard, StateShards
from headrace.broker.share.state.share_state import (
    ShareState,
    initialize_refusal,
    initialized,
    is_nonsense,
    leader_refusal,
    read_by,
    rewritten,
    write_refusal,
    written,
)
from headrace.broker.share.state.store import ShareStateLog
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

NOT_WRITABLE = "Write operation on uninitialized share partition not allowed."
NOT_READABLE = "Read operation on uninitialized share partition not allowed."
NEGATIVE_PARTITION = "The partition id cannot be a negative number."
NO_GROUP_ID = "The group id must be specified and non-empty."


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_snapshot_interval_ms: int = 300_000

    @classmethod
    def from_config(cls, config: Config) -> "ShareCoordinatorSettings":
        return cls(
            updates_per_snapshot=int(
                config["share.coordinator.snapshot.update.records.per.snapshot"]
            ),
            prune_interval_ms=int(config["share.coordinator.state.topic.prune.interval.ms"]),
            cold_snapshot_interval_ms=int(
                config["share.coordinator.cold.partition.snapshot.interval.ms"]
            ),
        )


class ShareCoordinator:
    def __init__(
        self,
        settings: ShareCoordinatorSettings,
        log: ShareStateLog,
        clock: Clock,
        timers: Timers,
        image_source: Callable[[], ClusterImage],
    ) -> None:
        self._settings = settings
        self._log = log
        self._clock = clock
        self._timers = timers
        self._image_source = image_source
        self._shards = StateShards(log, timers)
        self._vanished = VanishedTopics(image_source)
        self._upkeep_timers: dict[str, Timer] = {}

    # Life

    def start(self) -> None:
        self._shards.load_local()
        self._schedule_upkeep()

    def load(self, partition: int) -> Promise[int]:
        self._schedule_upkeep()
        return self._shards.load(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def shutdown(self) -> None:
        for timer in self._upkeep_timers.values():
            timer.cancel()
        self._shards.close()

    def ensure_topic(self) -> Promise[int]:
        """See that `__share_group_state` exists; an error code."""
        return self._log.ensure_exists()

    def partition_for(self, key: SharePartitionKey) -> int:
        return self._shards.partition_for(key)

    # Asked

    def initialize(self, wanted: InitializeState) -> Promise[Outcome]:
        shard = self._shard_of(wanted.key)
        if isinstance(shard, Outcome):
            return Promise.resolved(shard)
        if is_nonsense(wanted):
            return _refused(ErrorCode.INVALID_REQUEST)
        state = _state(shard.by_key.get(wanted.key))
        error = initialize_refusal(state, wanted) or self._topic_refusal(wanted.key)
        if error:
            return _refused(error)
        return self._append(shard, (wanted.key, initialized(state, wanted, self._clock.now_ms())))

    def write(self, wanted: WriteState) -> Promise[Outcome]:
        shard = self._shard_of(wanted.key)
        if isinstance(shard, Outcome):
            return Promise.resolved(shard)
        state = _state(shard.by_key.get(wanted.key))
        if state is None:
            return _refused(ErrorCode.INVALID_REQUEST, NOT_WRITABLE)
        if is_nonsense(wanted):
            return _refused(ErrorCode.INVALID_REQUEST)
        error = write_refusal(state, wanted) or self._topic_refusal(wanted.key)
        if error:
            return _refused(error)
        value = written(state, wanted, self._settings.updates_per_snapshot, self._clock.now_ms())
        return self._append(shard, (wanted.key, value))

    def read(self, wanted: ReadState) -> Promise[StateRead]:
        shard = self._shard_of(wanted.key)
        if isinstance(shard, Outcome):
            return Promise.resolved(StateRead(shard.error, shard.error_message))
        hosted = shard.by_key.get(wanted.key)
        if hosted is None:
            return Promise.resolved(StateRead(ErrorCode.INVALID_REQUEST, NOT_READABLE))
        state = hosted.state
        error = leader_refusal(state, wanted.leader_epoch) or self._topic_refusal(wanted.key)
        if error:
            return Promise.resolved(StateRead(error, error.message))
        value = read_by(
            WriteState(wanted.key, state.state_epoch, wanted.leader_epoch),
            state,
            self._settings.updates_per_snapshot,
            self._clock.now_ms(),
        )
        if value is None:
            kept = hosted.last_write.map(_outcome)
        else:
            kept = self._append(shard, (wanted.key, value))
        return kept.map(lambda outcome: _told(outcome, state))

    def delete(self, wanted: DeleteState) -> Promise[Outcome]:
        shard = self._shard_of(wanted.key)
        if isinstance(shard, Outcome):
            return Promise.resolved(shard)
        # No look at the topic: what is left of one that is gone should go too.
        if wanted.key not in shard.by_key:
            return Promise.resolved(Outcome(ErrorCode.NONE))
        return self._append(shard, (wanted.key, None))

    def read_summary(self, wanted: ReadSummary) -> Promise[SummaryRead]:
        shard = self._shard_of(wanted.key)
        if isinstance(shard, Outcome):
            return Promise.resolved(SummaryRead(shard.error, shard.error_message))
        error = self._topic_refusal(wanted.key)
        if error:
            return Promise.resolved(SummaryRead(error, error.message))
        hosted = shard.by_key.get(wanted.key)
        if hosted is None:
            return Promise.resolved(SummaryRead(ErrorCode.NONE))
        state = hosted.state
        return hosted.last_write.map(_outcome).map(lambda outcome: _summary(outcome, state))

    def counts(self) -> int:
        """Share-partitions whose state is kept here, for metrics."""
        return sum(len(shard.by_key) for shard in self._shards.loaded_shards())

    # Deciding

    def _shard_of(self, key: SharePartitionKey) -> StateShard | Outcome:
        if not key.group_id:
            return Outcome(ErrorCode.INVALID_REQUEST, NO_GROUP_ID)
        if key.partition < 0:
            return Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        shard = self._shards.locate(key)
        return Outcome(shard, shard.message) if isinstance(shard, ErrorCode) else shard

    def _topic_refusal(self, key: SharePartitionKey) -> ErrorCode:
        topic = self._image_source().topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _append(self, shard: StateShard, record: StateRecord) -> Promise[Outcome]:
        return self._shards.append(shard, [record]).map(_outcome)

    # Upkeep

    def on_topics_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Topics are gone: what was kept of them goes too."""
        self._shards.unload_lost()
        for shard in self._shards.loading_shards():
            self._forget_once_loaded(shard, topic_ids)
        for shard in self._shards.loaded_shards():
            self._forget_topics(shard, topic_ids)

    def _forget_once_loaded(self, shard: StateShard, topic_ids: Collection[bytes]) -> None:
        def on_loaded(loaded: Promise[int]) -> None:
            if loaded.error is None:
                self._forget_topics(shard, topic_ids)

        shard.loaded.then(on_loaded)

    def _forget_topics(self, shard: StateShard, topic_ids: Collection[bytes]) -> None:
        gone: list[StateRecord] = [(key, None) for key in shard.by_key if key.topic_id in topic_ids]
        if gone:
            self._shards.append(shard, gone)

    def look_for_vanished(self) -> None:
        """Of topics that were deleted while nobody was here to be told."""
        shards = list(self._shards.loaded_shards())
        gone = self._vanished.look(key.topic_id for shard in shards for key in shard.by_key)
        for shard in shards if gone else ():
            self._forget_topics(shard, gone)

    def prune(self) -> None:
        for shard in self._shards.loaded_shards():
            self._shards.prune(shard)

    def snapshot_cold(self) -> None:
        """States that nobody has written for long would keep the log's head from being pruned."""
        now_ms = self._clock.now_ms()
        since_ms = now_ms - self._settings.cold_snapshot_interval_ms
        for shard in self._shards.loaded_shards():
            states = {key: hosted.state for key, hosted in shard.by_key.items()}
            if all(each.create_timestamp_ms != each.write_timestamp_ms for each in states.values()):
                continue  # nobody writes at all: there is nothing to be gained
            cold: list[StateRecord] = [
                (key, rewritten(state, now_ms))
                for key, state in states.items()
                if state.write_timestamp_ms <= since_ms
            ]
            if cold:
                self._shards.append(shard, cold)

    def _schedule_upkeep(self) -> None:
        if self._upkeep_timers or self._shards.is_closed:
            return
        self._repeat("vanished", self._settings.prune_interval_ms, self.look_for_vanished)
        self._repeat("prune", self._settings.prune_interval_ms, self.prune)
        self._repeat("snapshot", self._settings.cold_snapshot_interval_ms, self.snapshot_cold)

    def _repeat(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        def on_time() -> None:
            if not self._shards.is_closed:
                self._repeat(name, interval_ms, work)
                work()

        self._upkeep_timers[name] = self._timers.call_later(interval_ms, on_time)


def _state(hosted: HostedState | None) -> ShareState | None:
    return None if hosted is None else hosted.state


def _outcome(error: int) -> Outcome:
    code = ErrorCode.of(error)
    return Outcome(code, code.message if code else None)


def _refused(error: ErrorCode, message: str | None = None) -> Promise[Outcome]:
    return Promise.resolved(Outcome(error, message or error.message))


def _told(outcome: Outcome, state: ShareState) -> StateRead:
    if outcome.error:
        return StateRead(outcome.error, outcome.error_message)
    return StateRead(
        ErrorCode.NONE,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=state.state_batches,
    )


def _summary(outcome: Outcome, state: ShareState) -> SummaryRead:
    if outcome.error:
        return SummaryRead(outcome.error, outcome.error_message)
    return SummaryRead(
        ErrorCode.NONE,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
