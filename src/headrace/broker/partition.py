"""One partition as this broker has it: its log, its high watermark, who waits for it.

Owns: the high watermark, the leader epoch, whether we lead, the requests that wait for data or
for a commit. Must not know: connections, request formats, who else has the partition
(`replication.in_sync` does the counting).

An append has two steps, so that the requests of one read share a write: `stage` checks the
producer and gives offsets, `commit` writes everything staged and makes it visible. Nothing
staged is answered or read before its commit.

With other replicas there is a third: what is written is committed once every in-sync replica has
it, which their fetches tell. acks=all waits for that.

Invariants: high_watermark ≤ log.log_end_offset; it never goes back while this broker leads;
after a StorageError the partition answers KAFKA_STORAGE_ERROR until the node restarts; who does
not lead neither takes nor gives records.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.base.errors import DiskFullError, StorageError
from headrace.base.promise import Promise
from headrace.base.topic_config import TopicConfig
from headrace.broker.refused_sequences import RefusedSequences
from headrace.broker.replication.in_sync import InSync, Proposal
from headrace.broker.waiting_commits import WaitingCommits
from headrace.cluster.image import INTERNAL_TOPICS
from headrace.log.partition_log import PartitionLog, Staged
from headrace.log.unmade_log import UnmadeLog
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import BatchHeader

ANY_BYTES = 1 << 31
"""As much as anybody waits for."""

OWN_COMMIT_MS = 5_000
"""How long a batch of the broker's own making waits for its followers, unless told."""


class Waiter(Protocol):
    """A request that waits for a partition to get more."""

    def on_appended(self, byte_count: int) -> None: ...

    def on_gone(self) -> None:
        """The partition was deleted or failed: answer now."""
        ...


class Partition:
    __slots__ = (
        "_commits",
        "_config",
        "_followers_waiting",
        "_unbegun",
        "_uncommitted_bytes",
        "_waiters",
        "error",
        "high_watermark",
        "in_sync",
        "index",
        "is_following",
        "is_internal",
        "is_leader",
        "leader_epoch",
        "log",
        "on_failure",
        "received_bytes",
        "refusal",
        "refused",
        "sent_bytes",
        "staged_bytes",
        "topic",
        "topic_id",
        "waits_for_sync",
        "walks_records",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        log: PartitionLog | UnmadeLog,
        config: TopicConfig,
        leader_epoch: int,
    ) -> None:
        self.topic = topic
        self.is_internal = topic in INTERNAL_TOPICS
        """Written by the broker alone: what it reads there at a start, it must have written."""
        self.index = index
        self.topic_id = topic_id
        self.log = log
        """Unmade, and empty, until the first use; then `Partitions` puts the real one here."""
        self.waits_for_sync = False
        """After a commit: `flush.messages` asks for a sync before it is acknowledged."""
        self.config = config
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset
        self.error = ErrorCode.NONE
        """Why it is out of service, whoever leads."""
        self.refusal = ErrorCode.NONE
        """What clients are told: `error`, or that another broker leads."""
        self.is_leader = True
        self.is_following = False
        """We fetch from a leader: consumers may read here what it told us to be committed."""
        self.in_sync: InSync | None = None
        """None where there is no other replica, or another broker leads."""
        self.on_failure: Callable[[StorageError], None] | None = None
        self.staged_bytes = 0
        self.received_bytes = 0
        """Written here by clients since the start; what followers fetch is not `sent_bytes`."""
        self.sent_bytes = 0
        self._uncommitted_bytes = 0
        # Dicts for their order: who waited first is told first, in every run of a seed.
        self._waiters: dict[Waiter, None] = {}
        self._followers_waiting: dict[Waiter, None] = {}
        self._commits = WaitingCommits()
        self.refused: RefusedSequences | None = None
        """Of idempotent producers, while there are any."""
        self._unbegun: tuple[int, Callable[[], None]] | None = None
        """An epoch that is to begin when there is room to write it down."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self.walks_records = config.compacted or config.compression_type != "producer"

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_watermark_known(self) -> bool:
        """False while a new leader has not yet heard how much of what it took over is committed:
        an end that is told then could be below one that was told before (KIP-207)."""
        in_sync = self.in_sync
        return in_sync is None or self.high_watermark >= in_sync.epoch_start_offset

    def leader_epoch_refusal(self, current_leader_epoch: int) -> ErrorCode:
        """What a client is told whose idea of the leader epoch is not ours (KIP-320)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def low_watermark(self) -> int:
        """Where the log starts on the leader and on all followers that live."""
        in_sync, start = self.in_sync, self.log.log_start_offset
        return start if in_sync is None else in_sync.low_watermark(start)

    @property
    def isr_count_min(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        in_sync = self.in_sync
        replicas = 1 if in_sync is None else len(in_sync.followers) + 1
        return min(self._config.min_insync_replicas, replicas)

    def required_acks_refusal(self) -> ErrorCode:
        """Whether acks=all can be promised: enough replicas must be in sync."""
        in_sync = self.in_sync
        if in_sync is not None and len(in_sync.isr) < self.isr_count_min:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    # -- leading and following -------------------------------------------------------------

    def lead(self, leader_epoch: int, in_sync: InSync | None) -> None:
        """We lead from now on; without `in_sync` there is no other replica."""
        self.commit_staged_first()
        self.leader_epoch = leader_epoch
        self.in_sync = in_sync
        self.is_leader = True
        self.is_following = False
        self.refusal = self.error
        if in_sync is None:
            self.high_watermark = self.log.log_end_offset
            self._on_committed()
        else:
            # What was taken over is not committed by a write: consumers wait for it all the same.
            is_all_committed = self.high_watermark >= self.log.log_end_offset
            self._uncommitted_bytes = 0 if is_all_committed else ANY_BYTES
            self.advance_high_watermark()

    def begin_epoch(self, leader_epoch: int, on_begun: Callable[[], None]) -> None:
        """Our first act as a leader: where the epoch starts is on disk, also if nothing is ever
        written in it (KAFKA-7415). An empty log has nothing to tell apart.

        The sync is not the loop's: a broker may begin to lead thousands at once. Nobody is served
        before `on_begun`.
        """
        if self.error or not self.log.log_end_offset:
            on_begun()
            return

        def on_done(error: StorageError | None) -> None:
            if isinstance(error, DiskFullError):
                self._unbegun = (leader_epoch, on_begun)
                return
            if error is not None:
                self.fail(error)
            on_begun()

        self._unbegun = None
        self.log.assign_epoch_later(leader_epoch, self.log.log_end_offset, on_done)

    def on_room(self) -> None:
        """The disk was full: an epoch that could not begin begins now."""
        if self._unbegun is not None:
            self.begin_epoch(*self._unbegun)

    def on_isr_decided(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> None:
        in_sync = self.in_sync
        if in_sync is not None and leader_epoch == self.leader_epoch:
            in_sync.on_decided(isr, partition_epoch)
            self.advance_high_watermark()

    def on_isr_refused(self, proposal: Proposal) -> None:
        in_sync = self.in_sync
        if in_sync is not None and proposal.leader_epoch == self.leader_epoch:
            in_sync.on_refused(proposal)
            self.advance_high_watermark()

    def follow(self, leader_epoch: int) -> None:
        """Another broker leads, or none: nobody here may wait any longer."""
        self.commit_staged_first()
        self._unbegun = None
        self.leader_epoch = leader_epoch
        self.in_sync = None
        self.is_leader = self.is_following = False
        self.refusal = self.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._commits.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.release_waiters()

    def on_leader_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """What a fetch told the follower of the leader's log."""
        log = self.log
        before = self.high_watermark
        self.high_watermark = max(0, min(high_watermark, log.log_end_offset))
        if self._waiters and self.high_watermark > before:
            for waiter in list(self._waiters):
                waiter.on_appended(ANY_BYTES)
        if log.log_start_offset < log_start_offset <= log.log_end_offset:
            log.delete_records(log_start_offset)

    def truncate_to(self, offset: int) -> None:
        """A follower forgets what the leader does not have."""
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def start_over_at(self, offset: int) -> None:
        """A follower whose log ends before the leader's begins."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    def advance_high_watermark(self) -> None:
        """After a follower's fetch, a change of the ISR, or a write that nobody else must have."""
        in_sync = self.in_sync
        if in_sync is None:
            return
        end_offset = self.log.log_end_offset
        reached = in_sync.high_watermark(self.high_watermark, end_offset, self.isr_count_min)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self._on_committed()

    def _on_committed(self) -> None:
        """The high watermark moved: who waited for it goes."""
        if self._commits:
            # Below its minimum the ISR commits nothing, so nobody is told of too few replicas
            # after the write: who waits then is told when they are back, or when time is up.
            self._commits.on_reached(self.high_watermark, self.refusal)
        byte_count, self._uncommitted_bytes = self._uncommitted_bytes, 0
        if byte_count:
            for waiter in list(self._waiters):
                waiter.on_appended(byte_count)

    def committed(self, offset: int, timeout_ms: int) -> "Promise[ErrorCode]":
        """Resolved once all in-sync replicas have `offset`, or with why that was not seen."""
        in_sync = self.in_sync
        if self.refusal or in_sync is None or offset < self.high_watermark:
            return Promise.resolved(self.refusal)
        return self._commits.add(offset, in_sync.now_ms + timeout_ms)

    def on_time(self, now_ms: int) -> None:
        """Now and then: producers are told when their time is over (what they sent stays), and a
        follower that was about to join and died is waited for no longer."""
        in_sync = self.in_sync
        if in_sync is None:
            return
        in_sync.on_time(now_ms)
        if self.high_watermark < self.log.log_end_offset:
            self.advance_high_watermark()
        if self._commits:
            self._commits.expire(now_ms)

    # -- writing -----------------------------------------------------------------------

    def note_refused(self, records: memoryview, error: ErrorCode, now_ms: int) -> None:
        """A batch may come again: those behind it are not to be written before it."""
        if self.refused is None:
            self.refused = RefusedSequences()
        self.refused.note(records, error, now_ms)

    def reason_of_one_before(self, header: BatchHeader, now_ms: int) -> ErrorCode:
        """Asked only while there are refused ones."""
        assert self.refused is not None
        reason = self.refused.reason(header, self.log.producers, now_ms)
        if not self.refused:
            self.refused = None
        return reason

    def stage(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Staged:
        """Queue one checked batch. The bytes must stay as they are until `commit`."""
        try:
            staged = self.log.stage(batch, header, self.leader_epoch, now_ms)
        except StorageError as error:  # it had to roll first, and could not
            self.fail(error)
            return Staged(-1, -1, error=int(ErrorCode.KAFKA_STORAGE_ERROR))
        if not (staged.duplicate or staged.error):
            self.staged_bytes += len(batch)
        return staged

    def commit(self) -> None:
        """Write what is staged. A failure shows in `error`, not as an exception."""
        byte_count, self.staged_bytes = self.staged_bytes, 0
        try:
            self.log.commit()
        except StorageError as error:
            self.fail(error)
            return
        self.received_bytes += byte_count
        self.waits_for_sync = self.log.needs_flush_before_ack
        if self.in_sync is not None:
            self._on_written(byte_count)
            return
        # One replica: what this log has, every in-sync replica has.
        self.high_watermark = self.log.log_end_offset
        waiters = self._waiters
        if waiters and byte_count:
            for waiter in list(waiters):
                waiter.on_appended(byte_count)

    def _on_written(self, byte_count: int) -> None:
        """Followers fetch it now; consumers see it when they have."""
        assert self.in_sync is not None
        self._uncommitted_bytes += byte_count
        if byte_count:
            for waiter in list(self._followers_waiting):
                waiter.on_appended(byte_count)
        if len(self.in_sync.maximal_isr) == 1:
            self.advance_high_watermark()

    def append(
        self, batch: bytearray, now_ms: int, timeout_ms: int = OWN_COMMIT_MS
    ) -> "Promise[ErrorCode]":
        """Append one batch of the broker's own making and see it as durable as acks=all is."""
        refusal = self.refusal or self.required_acks_refusal()
        if refusal:
            return Promise.resolved(refusal)
        if self.log.full is not None:
            return Promise.resolved(ErrorCode.KAFKA_STORAGE_ERROR)
        self.commit_staged_first()
        try:
            staged = self.log.append(batch, self.leader_epoch, now_ms)
        except StorageError as error:
            self.fail(error)
            return Promise.resolved(ErrorCode.KAFKA_STORAGE_ERROR)
        if staged.error:
            return Promise.resolved(ErrorCode.of(staged.error))
        if self.in_sync is not None:
            self._on_written(len(batch))
            flushed = self.flushed_as_configured()
            return both(flushed, self.committed(staged.last_offset, timeout_ms))
        self.high_watermark = self.log.log_end_offset
        for waiter in list(self._waiters):
            waiter.on_appended(len(batch))
        return self.flushed_as_configured()

    def commit_staged_first(self) -> None:
        if self.staged_bytes:
            self.commit()

    def flushed_as_configured(self) -> "Promise[ErrorCode]":
        """Resolved once `flush.messages` is honoured: at once, or after a sync."""
        if not self.log.needs_flush_before_ack:
            return Promise.resolved(self.error)
        promise: Promise[ErrorCode] = Promise()

        def on_done(error: StorageError | None) -> None:
            if error is not None:
                self.fail(error)
            promise.resolve(self.error)

        self.log.flush(on_done)
        return promise

    def fail(self, error: StorageError) -> None:
        """The log can't be trusted any more: out of service until a restart looks at it.

        Unless it is damage in this log alone, the log takes its directory out of service too. A
        disk without room is neither: what asked is refused, and asks again.
        """
        if isinstance(error, DiskFullError):
            return
        if not self.error:
            self.take_out(ErrorCode.KAFKA_STORAGE_ERROR)
            self.log.fail(error)
            if self.on_failure is not None:
                self.on_failure(error)

    def take_out(self, error: ErrorCode) -> None:
        self.error = self.refusal = error
        self._commits.refuse(error)
        self.release_waiters()

    # -- waiting -----------------------------------------------------------------------

    def wait(self, waiter: Waiter, *, follower: bool = False) -> None:
        """A follower waits for what is written, a consumer for what is committed."""
        if follower:
            self._followers_waiting[waiter] = None
        else:
            self._waiters[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._followers_waiting.pop(waiter, None)

    def on_log_start_moved(self) -> None:
        """Followers hear of it with their next answer: those that wait get it now."""
        self.answer_followers()

    def answer_followers(self) -> None:
        """Those that wait are answered, with nothing if need be, and ask again."""
        for waiter in list(self._followers_waiting):
            waiter.on_appended(ANY_BYTES)

    def release_waiters(self) -> None:
        waiters = self._waiters | self._followers_waiting
        self._waiters, self._followers_waiting = {}, {}
        for waiter in waiters:
            waiter.on_gone()


def both(first: "Promise[ErrorCode]", second: "Promise[ErrorCode]") -> "Promise[ErrorCode]":
    """Settled when both are, with the first error."""
    if first.settled and not first.value():
        return second
    done: Promise[ErrorCode] = Promise()

    def on_first(told: "Promise[ErrorCode]") -> None:
        second.then(lambda also: done.resolve(told.value() or also.value()))

    first.then(on_first)
    return done
