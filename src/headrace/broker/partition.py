"""One partition as this broker has it: its log, its high watermark, who waits for it.

Owns: the high watermark, the leader epoch, the requests that wait for data.
Must not know: connections, request formats.

An append has two steps, so that the requests of one read share a write: `stage` checks the
producer and gives offsets, `commit` writes everything staged and makes it visible. Nothing
staged is answered or read before its commit.

Invariants: high_watermark ≤ log.log_end_offset; it never goes back while this broker leads;
after a StorageError the partition answers KAFKA_STORAGE_ERROR until the node restarts.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.base.topic_config import TopicConfig
from headrace.cluster.image import INTERNAL_TOPICS
from headrace.log.partition_log import PartitionLog, Staged
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import BatchHeader

IN_SYNC_REPLICAS = 1
"""There is no replication yet: the leader alone is in sync."""


class Waiter(Protocol):
    """A request that waits for a partition to get more."""

    def on_appended(self, byte_count: int) -> None: ...

    def on_gone(self) -> None:
        """The partition was deleted or failed: answer now."""
        ...


class Partition:
    __slots__ = (
        "_config",
        "_waiters",
        "error",
        "high_watermark",
        "index",
        "is_internal",
        "leader_epoch",
        "log",
        "on_failure",
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
        log: PartitionLog,
        config: TopicConfig,
        leader_epoch: int,
    ) -> None:
        self.topic = topic
        self.is_internal = topic in INTERNAL_TOPICS
        """Written by the broker alone: what it reads there at a start, it must have written."""
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.waits_for_sync = False
        """After a commit: `flush.messages` asks for a sync before it is acknowledged."""
        self.config = config
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset
        self.error = ErrorCode.NONE
        self.on_failure: Callable[[StorageError], None] | None = None
        self.staged_bytes = 0
        self._waiters: set[Waiter] = set()

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

    def leader_epoch_refusal(self, current_leader_epoch: int) -> ErrorCode:
        """What a client is told whose idea of the leader epoch is not ours (KIP-320)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def required_acks_refusal(self) -> ErrorCode:
        """Whether acks=all can be promised: this one replica must be enough."""
        if self._config.min_insync_replicas > IN_SYNC_REPLICAS:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    # -- writing -----------------------------------------------------------------------

    def stage(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Staged:
        """Queue one checked batch. The bytes must stay as they are until `commit`."""
        try:
            staged = self.log.stage(batch, header, self.leader_epoch, now_ms)
        except StorageError as error:  # it had to roll first, and could not
            self.fail(error)
            return Staged(-1, -1, error=int(self.error))
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
        # One replica: what this log has, every in-sync replica has.
        self.high_watermark = self.log.log_end_offset
        self.waits_for_sync = self.log.needs_flush_before_ack
        waiters = self._waiters
        if waiters and byte_count:
            for waiter in list(waiters):
                waiter.on_appended(byte_count)

    def append(self, batch: bytearray, now_ms: int) -> "Promise[ErrorCode]":
        """Append one batch of the broker's own making and see it as durable as acks=all is."""
        if self.error:
            return Promise.resolved(self.error)
        self.commit_staged_first()
        try:
            staged = self.log.append(batch, self.leader_epoch, now_ms)
        except StorageError as error:
            self.fail(error)
            return Promise.resolved(ErrorCode.KAFKA_STORAGE_ERROR)
        if staged.error:
            return Promise.resolved(ErrorCode.of(staged.error))
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

        Unless it is damage in this log alone, the log takes its directory out of service too.
        """
        if not self.error:
            self.take_out(ErrorCode.KAFKA_STORAGE_ERROR)
            self.log.fail(error)
            if self.on_failure is not None:
                self.on_failure(error)

    def take_out(self, error: ErrorCode) -> None:
        self.error = error
        self.release_waiters()

    # -- waiting -----------------------------------------------------------------------

    def wait(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def forget(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def release_waiters(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.on_gone()
