"""From a prepared end to a complete one: the answer, the markers, the last record.

Owns: that story, and taking it up where a coordinator before us left it.
Must not know: why a transaction ends, requests, how markers travel (`markers`).

1. PrepareCommit is in the log: from here on the outcome is certain, and the producer is told;
2. markers go to every partition, and nothing else may happen to the id meanwhile;
3. CompleteCommit is in the log. A crash between 1 and 3 is made good by whoever loads the
   partition next: markers are sent again, and a second one changes nothing.
"""

from dataclasses import dataclass

from headrace.base.clock import Clock, Timers
from headrace.base.promise import Promise
from headrace.broker.transactions import ending
from headrace.broker.transactions.markers import RETRY_BACKOFF_MS, MarkerPeers, Sending
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.shards import (
    HostedTransaction,
    TransactionShard,
    TransactionShards,
)
from headrace.broker.transactions.states import PREPARED, TransactionState
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode


@dataclass(slots=True)
class TransactionCounters:
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    expired_ids: int = 0


class Completion:
    def __init__(
        self, shards: TransactionShards, clock: Clock, timers: Timers, peers: MarkerPeers
    ) -> None:
        self.counters = TransactionCounters()
        self._shards = shards
        self._clock = clock
        self._timers = timers
        self._peers = peers

    def end(
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

    def resume(self, shard: TransactionShard) -> None:
        """Complete what somebody had prepared before the partition came here."""
        for hosted in list(shard.by_id.values()):
            if hosted.metadata.state in PREPARED:
                self._send_markers(hosted)
