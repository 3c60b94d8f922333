"""What the clock asks of the coordinator: aborting what runs too long, forgetting idle ids.

Owns: the two alarms and what they do. Must not know: requests.
Spec: Kafka's abortTimedOutTransactions and removeExpiredTransactionalIds.
"""

from collections.abc import Callable

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.promise import Promise
from headrace.broker.transactions import expiry, fencing
from headrace.broker.transactions.completion import Completion
from headrace.broker.transactions.settings import TransactionSettings
from headrace.broker.transactions.shards import HostedTransaction, TransactionShards
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.store import tombstone
from headrace.wire.kafka.errors import ErrorCode

TOMBSTONES_PER_BATCH_MAX = 1_000


class Upkeep:
    def __init__(
        self,
        settings: TransactionSettings,
        shards: TransactionShards,
        completion: Completion,
        clock: Clock,
        timers: Timers,
        server_version: Callable[[], int],
    ) -> None:
        self.settings = settings
        self._shards = shards
        self._completion = completion
        self._clock = clock
        self._timers = timers
        self._server_version = server_version
        self._alarms: dict[str, Timer] = {}

    def watch(self) -> None:
        """Set the alarms, unless they are set."""
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

    def stop(self) -> None:
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def abort_overdue(self) -> int:
        """Abort the transactions that ran past their timeout and fence their producers."""
        now_ms = self._clock.now_ms()
        count = 0
        for hosted in self._shards.hosted():
            if hosted.pending is None and expiry.is_overdue(hosted.metadata, now_ms):
                self._completion.counters.timed_out += 1
                count += 1
                fenced = fencing.fence(
                    hosted.metadata, now_ms, server_version=self._server_version()
                )
                self._completion.end(hosted, fenced)
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
                    self._completion.counters.expired_ids += 1
                hosted.release()

        records = [tombstone(hosted.metadata.transactional_id) for hosted in expired]
        self._shards.append(expired[0].shard, records).then(on_appended)
