"""The transaction coordinator: what handlers ask, answered by the ids hosted here.

Owns: the way from a question to a decision, from the decision to the log, and from a prepared
end to its markers. Must not know: versions of requests, the wire.
Spec: Kafka's TransactionCoordinator.

The end of a transaction, as a story: 1. PrepareCommit is in the log: from here on the outcome is
certain, and the producer is told; 2. markers go to every partition, and nothing else may happen
to the id meanwhile; 3. CompleteCommit is in the log. A crash between 1 and 3 is made good by
whoever loads the partition next: markers are sent again, and a second one changes nothing.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.promise import Promise
from headrace.broker.transactions import adding, ending, expiry, fencing
from headrace.broker.transactions.markers import RETRY_BACKOFF_MS, MarkerPeers, Sending
from headrace.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
)
from headrace.broker.transactions.settings import Config, TransactionSettings
from headrace.broker.transactions.shards import (
    HostedTransaction,
    TransactionShard,
    TransactionShards,
)
from headrace.broker.transactions.states import PREPARED, TransactionState
from headrace.broker.transactions.store import StateLog, tombstone
from headrace.broker.transactions.verdicts import AlreadyDone, Need
from headrace.wire.kafka.errors import ErrorCode

TOMBSTONES_PER_BATCH_MAX = 1_000

FreshProducerId = Callable[[], Promise[int]]


@dataclass(frozen=True, slots=True)
class ProducerAnswer:
    """What InitProducerId and EndTxn tell: an error, or the id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class TransactionCounters:
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    expired_ids: int = 0


class TransactionCoordinator:
    def __init__(
        self,
        config: Config,
        state_log: StateLog,
        clock: Clock,
        timers: Timers,
        fresh_producer_id: FreshProducerId,
        peers: MarkerPeers,
        server_version: Callable[[], int],
    ) -> None:
        self.settings = TransactionSettings.from_config(config)
        self.counters = TransactionCounters()
        self._log = state_log
        self._clock = clock
        self._timers = timers
        self._fresh_producer_id = fresh_producer_id
        self._peers = peers
        self._server_version = server_version
        self._shards = TransactionShards(state_log, timers, server_version)
        self._shards.on_loaded = self._on_loaded
        self._alarms: dict[str, Timer] = {}

    # Life

    def start(self) -> None:
        """Load what this broker leads, complete what was prepared, watch the clock."""
        self._shards.load_local()
        self._watch()

    def shutdown(self) -> None:
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._shards.close()

    def load(self, partition: int) -> Promise[int]:
        """This broker leads the partition now; a promise of the number of records read."""
        self._watch()
        return self._shards.load(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def on_topics_deleted(self) -> None:
        self._shards.unload_lost()

    def ensure_topic(self) -> Promise[int]:
        """See that `__transaction_state` exists; an error code."""
        self._watch()
        return self._log.ensure_exists()

    def partition_for(self, transactional_id: str) -> int:
        return self._shards.partition_for(transactional_id)

    def _watch(self) -> None:
        self._every("abort", self.settings.abort_check_interval_ms, self.abort_overdue)
        self._every("expire", self.settings.expiration_check_interval_ms, self.forget_expired)

    def _every(self, name: str, interval_ms: int, action: Callable[[], object]) -> None:
        if name in self._alarms or self._shards.is_closed:
            return

        def turn() -> None:
            del self._alarms[name]
            action()
            self._every(name, interval_ms, action)

        self._alarms[name] = self._timers.call_later(interval_ms, turn)

    # InitProducerId

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Promise[ProducerAnswer]:
        if not transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.settings.timeout_ms_max:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        shard = self._shards.locate(transactional_id)
        if isinstance(shard, ErrorCode):
            return _refused(shard)
        if transactional_id in shard.by_id:
            return self._init(transactional_id, timeout_ms, expected, None)

        def created(producer_id: int) -> Promise[ProducerAnswer]:
            found = self._shards.locate(transactional_id)
            if isinstance(found, ErrorCode):
                return _refused(found)
            self._shards.host(
                found,
                TransactionMetadata(
                    transactional_id,
                    producer_id,
                    timeout_ms,
                    last_update_timestamp_ms=self._clock.now_ms(),
                ),
            )
            return self._init(transactional_id, timeout_ms, expected, None)

        return self._with_fresh_id(created)

    def _init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        fresh_producer_id: int | None,
    ) -> Promise[ProducerAnswer]:
        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            return _refused(hosted)
        if hosted.pending is not None:
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        verdict = fencing.decide_init(
            hosted.metadata,
            expected,
            timeout_ms,
            self._clock.now_ms(),
            server_version=self._server_version(),
            fresh_producer_id=fresh_producer_id,
        )
        if isinstance(verdict, ErrorCode):
            return _refused(verdict)
        if isinstance(verdict, Need):
            return self._with_fresh_id(
                lambda fresh: self._init(transactional_id, timeout_ms, expected, fresh)
            )
        if verdict.state is TransactionState.PREPARE_ABORT:
            self.counters.fenced += 1
            return self._end(hosted, verdict).map(_come_again)
        return self._shards.transit(hosted, verdict).map(
            lambda error: _answer(error, verdict.producer_id, verdict.producer_epoch)
        )

    def _with_fresh_id(
        self, go_on: Callable[[int], Promise[ProducerAnswer]]
    ) -> Promise[ProducerAnswer]:
        answer: Promise[ProducerAnswer] = Promise()

        def on_id(told: Promise[int]) -> None:
            producer_id = told.value() if told.error is None else NO_PRODUCER_ID
            if producer_id < 0:
                answer.resolve(ProducerAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            go_on(producer_id).then(lambda final: answer.resolve(final.value()))

        self._fresh_producer_id().then(on_id)
        return answer

    # Partitions of a transaction

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Promise[ErrorCode]:
        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            return Promise.resolved(hosted)
        if hosted.pending is not None:
            # Asked first: with a rotation under way the producer may have the next id already.
            return Promise.resolved(ErrorCode.CONCURRENT_TRANSACTIONS)
        verdict = adding.decide_add(
            hosted.metadata,
            producer_id,
            producer_epoch,
            partitions,
            client_version,
            self._clock.now_ms(),
        )
        if isinstance(verdict, ErrorCode):
            return Promise.resolved(verdict)
        return self._shards.transit(hosted, verdict)

    def add_by_writing(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Promise[ErrorCode]:
        """The same for a batch that waits in the broker: it may wait for a transition to end.

        Batches of one producer are let through in the order in which they came.
        """
        added: Promise[ErrorCode] = Promise()

        def on_free() -> None:
            outcome = self.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version
            )
            outcome.then(lambda told: added.resolve(told.value()))

        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            added.resolve(hosted)
        else:
            hosted.when_free(on_free)
        return added

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            return dict.fromkeys(partitions, hosted)
        return adding.decide_verify(hosted.metadata, producer_id, producer_epoch, partitions)

    # EndTxn

    def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        client_version: int,
        fresh_producer_id: int | None = None,
    ) -> Promise[ProducerAnswer]:
        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            return _refused(hosted)
        verdict = ending.decide_end(
            hosted.metadata,
            producer_id,
            producer_epoch,
            is_commit,
            client_version,
            self._clock.now_ms(),
            fresh_producer_id=fresh_producer_id,
        )
        if isinstance(verdict, ErrorCode):
            return _refused(verdict)
        if hosted.pending is not None:
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if isinstance(verdict, AlreadyDone):
            return Promise.resolved(
                ProducerAnswer(ErrorCode.NONE, verdict.producer_id, verdict.producer_epoch)
            )
        if isinstance(verdict, Need):
            return self._with_fresh_id(
                lambda fresh: self.end_transaction(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    is_commit=is_commit,
                    client_version=client_version,
                    fresh_producer_id=fresh,
                )
            )
        return self._end(hosted, verdict)

    def _end(
        self, hosted: HostedTransaction, prepared: TransactionMetadata
    ) -> Promise[ProducerAnswer]:
        """Write the prepared state; the answer comes with it, the markers go out behind it."""
        answer: Promise[ProducerAnswer] = Promise()
        complete = ending.decide_complete(prepared, self._clock.now_ms())

        def on_prepared(told: Promise[ErrorCode]) -> None:
            error = told.value()
            if error is not ErrorCode.NONE:
                answer.resolve(ProducerAnswer(error))
                return
            self._send_markers(hosted)
            answer.resolve(
                ProducerAnswer(ErrorCode.NONE, complete.producer_id, complete.producer_epoch)
            )

        self._shards.transit(hosted, prepared).then(on_prepared)
        return answer

    def _send_markers(self, hosted: HostedTransaction) -> None:
        """Of a transaction whose end is prepared; then complete it."""
        shard, prepared = hosted.shard, hosted.metadata
        complete = ending.decide_complete(prepared, self._clock.now_ms())
        hosted.pending = complete.state

        def on_written() -> None:
            self._complete(hosted, prepared)

        sending = Sending(
            prepared,
            shard.coordinator_epoch,
            self._peers,
            self._timers,
            lambda: self._shards.is_current(shard),
            on_written,
        )
        sending.send()

    def _complete(self, hosted: HostedTransaction, prepared: TransactionMetadata) -> None:
        complete = ending.decide_complete(prepared, self._clock.now_ms())

        def on_complete(told: Promise[ErrorCode]) -> None:
            error = told.value()
            if error is ErrorCode.NONE:
                self._count(complete)
            elif self._shards.is_current(hosted.shard):
                # The markers are out: nothing else may happen to the id until this is written.
                hosted.pending = complete.state
                self._timers.call_later(
                    RETRY_BACKOFF_MS, lambda: self._complete_again(hosted, prepared)
                )

        self._shards.write(hosted, complete).then(on_complete)

    def _complete_again(self, hosted: HostedTransaction, prepared: TransactionMetadata) -> None:
        if self._shards.is_current(hosted.shard):
            self._complete(hosted, prepared)

    def _count(self, complete: TransactionMetadata) -> None:
        if complete.state is TransactionState.COMPLETE_COMMIT:
            self.counters.committed += 1
        else:
            self.counters.aborted += 1

    def _on_loaded(self, shard: TransactionShard) -> None:
        """Complete what somebody had prepared before the partition came here."""
        for hosted in list(shard.by_id.values()):
            if hosted.metadata.state in PREPARED:
                self._send_markers(hosted)

    # Time

    def abort_overdue(self) -> int:
        """Abort the transactions that ran past their timeout and fence their producers."""
        now_ms = self._clock.now_ms()
        count = 0
        for hosted in self._shards.hosted():
            if hosted.pending is None and expiry.is_overdue(hosted.metadata, now_ms):
                self.counters.timed_out += 1
                count += 1
                fenced = fencing.fence(
                    hosted.metadata, now_ms, server_version=self._server_version()
                )
                self._end(hosted, fenced)
        return count

    def forget_expired(self) -> int:
        """Write tombstones for ids that nobody has used for long; how many."""
        now_ms = self._clock.now_ms()
        expiration_ms = self.settings.transactional_id_expiration_ms
        by_shard: dict[int, list[HostedTransaction]] = {}
        for hosted in self._shards.hosted():
            if hosted.pending is None and expiry.is_forgotten(
                hosted.metadata, now_ms, expiration_ms
            ):
                by_shard.setdefault(hosted.shard.partition, []).append(hosted)
        for expired in by_shard.values():
            for start in range(0, len(expired), TOMBSTONES_PER_BATCH_MAX):
                self._bury(expired[start : start + TOMBSTONES_PER_BATCH_MAX])
        return sum(map(len, by_shard.values()))

    def _bury(self, expired: list[HostedTransaction]) -> None:
        for hosted in expired:
            hosted.pending = TransactionState.DEAD

        def on_appended(told: Promise[ErrorCode]) -> None:
            is_kept = told.value() is ErrorCode.NONE
            for hosted in expired:
                hosted.pending = None
                if is_kept:
                    self._shards.forget(hosted)
                    self.counters.expired_ids += 1
                hosted.release()

        records = [tombstone(hosted.metadata.transactional_id) for hosted in expired]
        self._shards.append(expired[0].shard, records).then(on_appended)

    # Looking

    def describe(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        hosted = self._shards.find(transactional_id)
        if isinstance(hosted, ErrorCode):
            return hosted
        if hosted.pending is TransactionState.DEAD:
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return hosted.metadata

    def all(self) -> list[TransactionMetadata] | ErrorCode:
        """Of the partitions that this broker leads."""
        if self._shards.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._shards.load_local()
        if self._shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [
            hosted.metadata
            for hosted in self._shards.hosted()
            if hosted.pending is not TransactionState.DEAD
        ]

    def counts(self) -> dict[str, int]:
        """Ids by state, for metrics."""
        return dict(Counter(hosted.metadata.state.title for hosted in self._shards.hosted()))

    def _find(self, transactional_id: str) -> HostedTransaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        hosted = self._shards.find(transactional_id)
        if hosted is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return hosted


def _refused(error: ErrorCode) -> Promise[ProducerAnswer]:
    return Promise.resolved(ProducerAnswer(error))


def _answer(error: ErrorCode, producer_id: int, producer_epoch: int) -> ProducerAnswer:
    if error is not ErrorCode.NONE:
        return ProducerAnswer(error)
    return ProducerAnswer(error, producer_id, producer_epoch)


def _come_again(answer: ProducerAnswer) -> ProducerAnswer:
    """The old producer's transaction is being aborted: the newcomer asks again."""
    if answer.error is not ErrorCode.NONE:
        return answer
    return ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
