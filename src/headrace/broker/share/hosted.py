"""A share-partition at the leader of its partition: loaded, kept, and its locks watched.

Owns: the one write under way, who waits for it, the timer of the first lock, who waits for records.
Must not know: requests, sessions, the log's bytes; which transitions there are (`partition`).

    loading ─→ ready ─→ closed       a failed load closes too: the next fetch makes another one
"""

from collections.abc import Callable
from typing import Protocol

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.broker.share.metrics import ShareMetrics
from headrace.broker.share.partition.share_partition import Change, SharePartition
from headrace.broker.share.partition.states import Acknowledgement
from headrace.broker.share.persister import (
    UNINITIALIZED_START_OFFSET,
    Outcome,
    Persister,
    ReadState,
    SharePartitionKey,
    StateRead,
    WriteState,
)
from headrace.broker.share.settings import EARLIEST, ShareSettings
from headrace.wire.kafka.errors import ErrorCode

_RETRY_WRITE_MS = 1_000

_PASSING = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_TOLD = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Waiter(Protocol):
    """A fetch that waits for records."""

    def on_available(self) -> None: ...


class HostedSharePartition:
    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        settings: Callable[[], ShareSettings],
        persister: Persister,
        clock: Clock,
        timers: Timers,
        metrics: ShareMetrics,
        on_closed: "Callable[[HostedSharePartition], None]",
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self._settings = settings
        self._persister = persister
        self._clock = clock
        self._timers = timers
        self._metrics = metrics
        self._on_closed = on_closed
        self._state_epoch = 0
        self.state: SharePartition | None = None
        """None while it is loading."""
        self.is_closed = False
        self.closes_when_kept = False
        """Nobody here needs it any more, but for what is yet to be written."""
        self.error = ErrorCode.NONE
        """Why it was closed, as a fetch is told; NONE if a later fetch may have more luck."""
        self._changes: dict[Change, Promise[ErrorCode]] = {}
        self._waiters: dict[Waiter, None] = {}
        self._lock_timer: Timer | None = None
        self._retry_timer: Timer | None = None

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads as it did when this was made."""
        partition = self.partition
        return (
            not self.is_closed
            and partition.is_leader
            and not partition.refusal
            and partition.leader_epoch == self.leader_epoch
        )

    # -- loading -----------------------------------------------------------------------------

    def load(self) -> None:
        wanted = ReadState(self.key, self.leader_epoch)
        self._persister.read(wanted).then(lambda done: self._on_read(done.value()))

    def _on_read(self, read: StateRead) -> None:
        if self.is_closed:
            return
        if read.error:
            self.close(fetch_error(read.error))
            return
        self._state_epoch = read.state_epoch
        if read.start_offset != UNINITIALIZED_START_OFFSET:
            self._begin(
                SharePartition.rebuilt(
                    read.start_offset, read.state_batches, self._settings().limits
                )
            )
            return
        start_offset = self._first_offset()
        if start_offset is None:
            self.close(ErrorCode.NONE)
            return
        # Kept before the first record goes out: "latest" must not be later after a restart.
        self._persister.write(
            WriteState(self.key, self._state_epoch, self.leader_epoch, start_offset, 0)
        ).then(lambda done: self._on_first_kept(done.value(), start_offset))

    def _first_offset(self) -> int | None:
        """Where a group begins that nobody told; None while the end of the log is not known."""
        settings, partition = self._settings(), self.partition
        if settings.auto_offset_reset == EARLIEST:
            return partition.log.log_start_offset
        if not partition.is_watermark_known:
            return None
        end_offset = partition.high_watermark
        back_ms = settings.reset_duration_ms
        if back_ms is None:
            return end_offset
        try:
            found = partition.log.offset_for_timestamp(self._clock.now_ms() - back_ms, end_offset)
        except StorageError as failure:
            partition.fail(failure)
            return None
        return end_offset if found is None else found.offset

    def _on_first_kept(self, outcome: Outcome, start_offset: int) -> None:
        if self.is_closed:
            return
        if outcome.error:
            self.close(fetch_error(outcome.error))
            return
        self._begin(SharePartition(start_offset, self._settings().limits))

    def _begin(self, state: SharePartition) -> None:
        self.state = state
        self.refresh()
        self._wake()

    def refresh(self) -> None:
        """Follow the log's start and the group's configuration."""
        state = self.state
        if state is not None:
            state.limits = self._settings().limits
            state.on_log_start(self.partition.log.log_start_offset)

    # -- the end -----------------------------------------------------------------------------

    def close(self, error: ErrorCode) -> None:
        """Whatever is under way is not ours any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self.error = error
        for timer in (self._lock_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._lock_timer = self._retry_timer = None
        changes, self._changes = self._changes, {}
        self._on_closed(self)
        for promise in changes.values():
            promise.resolve(error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake()

    def close_when_kept(self) -> None:
        """At once, or after the write that is under way."""
        self.closes_when_kept = True
        self._maybe_close()

    def _maybe_close(self) -> None:
        if self.closes_when_kept and (self.state is None or not self.state.is_writing):
            self.close(ErrorCode.NONE)

    # -- waiting -----------------------------------------------------------------------------

    def wait(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def _wake(self) -> None:
        for waiter in list(self._waiters):
            waiter.on_available()

    # -- transitions ---------------------------------------------------------------------------

    def on_acquired(self, record_count: int) -> None:
        self._metrics.acquired += record_count
        self._watch_locks()

    def acknowledge(self, member_id: str, batches: list[Acknowledgement]) -> Promise[ErrorCode]:
        """Resolved once it is kept, or with why not."""
        state = self.state
        if state is None or not self.is_current:
            return Promise.resolved(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.refresh()
        lock_until_ms = self._clock.monotonic_ms() + self._settings().lock_duration_ms
        change = state.acknowledge(member_id, batches, lock_until_ms)
        if isinstance(change, ErrorCode):
            return Promise.resolved(change)
        if not change.runs:
            self._metrics.count(change.tally)
            return Promise.resolved(ErrorCode.NONE)
        promise: Promise[ErrorCode] = Promise()
        self._changes[change] = promise
        self._write()
        return promise

    def release_member(self, member_id: str) -> None:
        state = self.state
        if state is None or not self.is_current:
            return
        tally = state.release_member(member_id)
        if tally.released:
            self._metrics.count(tally)
            self._write()
            self._wake()

    # -- locks -----------------------------------------------------------------------------------

    def _watch_locks(self) -> None:
        """Have a timer for the first lock. One that rings early looks again: locks are renewed,
        and most end long before their time."""
        state = self.state
        if state is None or self._lock_timer is not None or self.is_closed:
            return
        until_ms = state.lock_until_ms()
        if until_ms is not None:
            delay_ms = max(until_ms - self._clock.monotonic_ms(), 0)
            self._lock_timer = self._timers.call_later(delay_ms, self._on_lock_timer)

    def _on_lock_timer(self) -> None:
        self._lock_timer = None
        if self._expire():
            self._write()
            self._wake()
        self._watch_locks()

    def _expire(self) -> int:
        assert self.state is not None
        tally = self.state.expire(self._clock.monotonic_ms())
        self._metrics.lock_timeouts += tally.released
        self._metrics.archived += tally.archived
        return tally.released

    # -- keeping ---------------------------------------------------------------------------------

    def _write(self) -> None:
        state = self.state
        if state is None or self.is_closed:
            return
        write = state.next_write()
        if write is None:
            return
        self._metrics.writes += 1
        self._persister.write(
            WriteState(
                self.key,
                self._state_epoch,
                self.leader_epoch,
                write.start_offset,
                write.delivery_complete_count,
                write.state_batches,
            )
        ).then(lambda done: self._on_write_done(done.value(), write.changes))

    def _on_write_done(self, outcome: Outcome, changes: tuple[Change, ...]) -> None:
        state = self.state
        if self.is_closed or state is None:
            return
        if outcome.error:
            self._on_write_failed(state, outcome.error, changes)
            return
        self._metrics.count(state.on_written())
        self._write()
        self._resolve(changes, ErrorCode.NONE)
        self._maybe_close()
        self._wake()

    def _on_write_failed(
        self, state: SharePartition, error: ErrorCode, changes: tuple[Change, ...]
    ) -> None:
        self._metrics.failed_writes += 1
        state.on_write_failed()
        self._resolve(changes, acknowledge_error(error))
        if error in _FENCED or error in _TOLD:
            self.close(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _FENCED else error)
            return
        self._maybe_close()
        if self.is_closed:
            return
        self._watch_locks()
        if self._retry_timer is None:
            self._retry_timer = self._timers.call_later(_RETRY_WRITE_MS, self._on_retry)

    def _on_retry(self) -> None:
        self._retry_timer = None
        self._write()

    def _resolve(self, changes: tuple[Change, ...], error: ErrorCode) -> None:
        for change in changes:
            promise = self._changes.pop(change, None)
            if promise is not None:
                promise.resolve(error)


def fetch_error(error: ErrorCode) -> ErrorCode:
    """What a fetch is told of a failed load; NONE where it had better wait for the next one.

    Of a code that it does not expect here Kafka's share consumer dies: few are passed on.
    """
    if error in _PASSING:
        return ErrorCode.NONE
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_expected = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error if is_expected else ErrorCode.UNKNOWN_SERVER_ERROR


def acknowledge_error(error: ErrorCode) -> ErrorCode:
    """What a member is told of an acknowledgement that was not kept."""
    if error in _PASSING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error if error in _TOLD else ErrorCode.UNKNOWN_SERVER_ERROR
