"""The transaction coordinator: what handlers ask, answered by the ids hosted here.

Owns: the way from a question to a decision, and from the decision to the log.
Must not know: versions of requests, the wire. Spec: Kafka's TransactionCoordinator.

Ends are `completion`'s, the clock is `upkeep`'s; this is the door to both.
"""

from collections import Counter
from collections.abc import Callable, Collection

from headrace.base.clock import Clock, Timers
from headrace.base.promise import Promise
from headrace.broker.transactions import adding, ending, fencing
from headrace.broker.transactions.completion import Completion, TransactionCounters
from headrace.broker.transactions.markers import MarkerPeers
from headrace.broker.transactions.metadata import (
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
)
from headrace.broker.transactions.settings import Config, TransactionSettings
from headrace.broker.transactions.shards import HostedTransaction, TransactionShards
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.store import StateLog
from headrace.broker.transactions.upkeep import Upkeep
from headrace.broker.transactions.verdicts import AlreadyDone, Need, ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode

ADD_WAIT_MS_MAX = 100
"""How long a batch waits for the end of the transaction before; Kafka's own limit."""

FreshProducerId = Callable[[], Promise[int]]


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
        self._log = state_log
        self._clock = clock
        self._timers = timers
        self._fresh_producer_id = fresh_producer_id
        self._server_version = server_version
        self._shards = TransactionShards(state_log, timers, server_version)
        self._completion = Completion(self._shards, clock, timers, peers)
        self._shards.on_loaded = self._completion.resume
        self.upkeep = Upkeep(
            self.settings, self._shards, self._completion, clock, timers, server_version
        )

    @property
    def counters(self) -> TransactionCounters:
        return self._completion.counters

    def configure(self, config: Config) -> None:
        """The broker's configuration changed."""
        self.settings = self.upkeep.settings = TransactionSettings.from_config(config)

    # Life

    def start(self) -> None:
        """Load what this broker leads, complete what was prepared, watch the clock."""
        self._shards.load_local()
        self.upkeep.watch()

    def shutdown(self) -> None:
        self.upkeep.stop()
        self._shards.close()

    def load(self, partition: int) -> Promise[int]:
        """This broker leads the partition now; a promise of the number of records read."""
        self.upkeep.watch()
        return self._shards.load(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def on_topics_deleted(self) -> None:
        self._shards.unload_lost()

    def ensure_topic(self) -> Promise[int]:
        """See that `__transaction_state` exists; an error code."""
        self.upkeep.watch()
        return self._log.ensure_exists()

    def partition_for(self, transactional_id: str) -> int:
        return self._shards.partition_for(transactional_id)

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
            self._completion.counters.fenced += 1
            return self._completion.end(hosted, verdict).map(_come_again)
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
        """The same for a batch that waits in the broker: it may wait a moment for a transition.

        Batches of one producer are let through in the order in which they came.
        """
        added: Promise[ErrorCode] = Promise()

        def on_late() -> None:
            if not added.settled:
                added.resolve(ErrorCode.CONCURRENT_TRANSACTIONS)

        def on_free() -> None:
            if added.settled:
                return
            outcome = self.add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version
            )
            outcome.then(lambda told: None if added.settled else added.resolve(told.value()))

        hosted = self._find(transactional_id)
        if isinstance(hosted, ErrorCode):
            added.resolve(hosted)
            return added
        is_busy = hosted.pending is not None
        hosted.when_free(on_free)
        if is_busy:
            alarm = self._timers.call_later(ADD_WAIT_MS_MAX, on_late)
            added.then(lambda _: alarm.cancel())
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
        return self._completion.end(hosted, verdict)

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
