"""Mistakes of replication to be switched on, by which the simulation itself is tested.

Owns: each mistake, the rules that it may break first, and within how many seeds it is found. Must
not know: how it is found. A bug is a patch that is undone at the end (`testing.quorum.bugs.Bug`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.api import k01_fetch
from headrace.broker.groups.shards import _Load
from headrace.broker.internal_log import InternalLog
from headrace.broker.partition import Partition
from headrace.broker.replication.in_sync import InSync
from headrace.broker.replication.replication import Replication
from headrace.broker.transactions import markers
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.shards import TransactionShard, TransactionShards
from headrace.cluster import isr, partition_change
from headrace.cluster.registrations import PartitionImage
from headrace.log.log_writer import LogWriter
from headrace.log.partition_log import PartitionLog
from headrace.testing.quorum.bugs import Bug, Patch
from headrace.wire.kafka.errors import ErrorCode


def _ack_before_isr() -> list[Patch]:
    """acks=all is answered when the leader has it."""

    def committed(self: Partition, offset: int, timeout_ms: int) -> Promise[ErrorCode]:  # noqa: ARG001
        return Promise.resolved(self.refusal)

    return [(Partition, "committed", committed)]


def _truncate_to_high_watermark() -> list[Patch]:
    """As before KIP-101: who begins to follow forgets what it does not know to be committed."""
    original = Partition.follow

    def follow(self: Partition, leader_epoch: int) -> None:
        original(self, leader_epoch)
        if self.log.log_end_offset > self.high_watermark:
            self.truncate_to(self.high_watermark)

    return [(Partition, "follow", follow)]


def _join_below_epoch_start() -> list[Patch]:
    """KAFKA-7128: the high watermark of a new leader, which may lag, is enough to join."""
    original = InSync.maybe_expand

    def maybe_expand(self: InSync, broker_id: int, high_watermark: int) -> Any:
        kept, self.epoch_start_offset = self.epoch_start_offset, 0
        try:
            return original(self, broker_id, high_watermark)
        finally:
            self.epoch_start_offset = kept

    return [(InSync, "maybe_expand", maybe_expand)]


def _proposed_does_not_count() -> list[Patch]:
    """The high watermark passes a replica whose joining is under way."""
    return [(InSync, "maximal_isr", property(lambda self: frozenset(self.isr)))]


def _commit_below_min_isr() -> list[Patch]:
    original = InSync.high_watermark

    def high_watermark(self: InSync, current: int, leader_end: int, isr_count_min: int) -> int:  # noqa: ARG001
        return original(self, current, leader_end, 0)

    return [(InSync, "high_watermark", high_watermark)]


def _lead_to_the_end() -> list[Patch]:
    """A new leader takes all it has for committed."""
    original = Partition.lead

    def lead(self: Partition, leader_epoch: int, in_sync: InSync | None) -> None:
        self.high_watermark = self.log.log_end_offset
        original(self, leader_epoch, in_sync)

    return [(Partition, "lead", lead)]


def _divergence_unseen() -> list[Patch]:
    """A follower whose log went another way is served as if it had not."""
    return [(k01_fetch, "_divergence", lambda _partition, _wanted: None)]


def _epoch_not_begun() -> list[Patch]:
    """KAFKA-7415: an epoch is written down with its first batch, not when it begins."""
    return [(Partition, "begin_epoch", lambda _self, _leader_epoch, on_begun: on_begun())]


def _lagging_count_as_caught_up() -> list[Patch]:
    """A replica joins as soon as it is heard of."""

    def maybe_expand(self: InSync, broker_id: int, high_watermark: int) -> Any:  # noqa: ARG001
        follower = self.followers.get(broker_id)
        if follower is None or self.is_proposing or broker_id in self.isr:
            return None
        if not self._may_join(broker_id, follower.broker_epoch):
            return None
        return self._propose((*self.isr, broker_id))

    return [(InSync, "maybe_expand", maybe_expand)]


def _stale_broker_epoch() -> list[Patch]:
    """KIP-903: what an older life of a broker had counts for the new one."""
    original = InSync.on_fetch

    def on_fetch(
        self: InSync,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
    ) -> bool:
        follower = self.followers.get(broker_id)
        if follower is not None:
            offset = max(offset, min(follower.log_end_offset, leader_end))
        return original(self, broker_id, broker_epoch, offset, log_start_offset, leader_end, now_ms)

    return [
        (InSync, "on_fetch", on_fetch),
        (isr, "_eligibility_refusal", lambda _image, _before, _new_isr: None),
        (Replication, "_may_join", lambda _self, _broker_id, _broker_epoch: True),
    ]


def _no_fencing() -> list[Patch]:
    """Leader epochs are not looked at, and who led before goes on taking writes."""
    original = Partition.follow

    def follow(self: Partition, leader_epoch: int) -> None:
        original(self, leader_epoch)
        self.refusal = self.error

    return [
        (Partition, "follow", follow),
        (Partition, "leader_epoch_refusal", lambda _self, _epoch: ErrorCode.NONE),
        (isr, "_epoch_refusal", lambda _before, _broker_id, _wanted: None),
    ]


def _epoch_not_synced() -> list[Patch]:
    """An epoch is written down when it begins, and left to the page cache."""

    def assign_epoch_later(
        self: LogWriter,
        epoch: int,
        start_offset: int,
        on_done: Callable[[StorageError | None], None],
    ) -> None:
        if self.epochs.assign(epoch, start_offset):
            self.save_epochs(sync=False)
        self._epoch = epoch
        on_done(None)

    return [(LogWriter, "assign_epoch_later", assign_epoch_later)]


def _stable_to_high_watermark() -> list[Patch]:
    """Committed readers get what lies behind the first open transaction."""

    def last_stable_offset(_self: PartitionLog, high_watermark: int) -> int:
        return high_watermark

    return [(PartitionLog, "last_stable_offset", last_stable_offset)]


def _marker_refused_is_written() -> list[Patch]:
    """A leader that could not write a marker counts as if it had."""

    def outcomes(response: Any) -> Any:
        for marker in response.markers:
            for topic in marker.topics:
                for partition in topic.partitions:
                    yield (topic.name, partition.partition_index), 0

    return [(markers, "_outcomes", outcomes)]


def _prepared_is_not_taken_up() -> list[Patch]:
    """A new coordinator leaves what the last one had prepared."""

    def finish_load(
        self: TransactionShards,
        shard: TransactionShard,
        states: dict[str, TransactionMetadata],
        record_count: int,
    ) -> None:
        kept, self.on_loaded = self.on_loaded, None
        try:
            original(self, shard, states, record_count)
        finally:
            self.on_loaded = kept

    original = TransactionShards.finish_load
    return [(TransactionShards, "finish_load", finish_load)]


def _move_without_copying() -> list[Patch]:
    """A replica that is added counts as in sync, and those that leave are gone at once."""

    def complete(before: PartitionImage, target: PartitionImage) -> PartitionImage:
        if not target.is_moving:
            return target
        replicas = tuple(each for each in target.replicas if each not in target.removing_replicas)
        return replace(
            target,
            replicas=replicas,
            isr=replicas,
            adding_replicas=(),
            removing_replicas=(),
            directories=partition_change.directories_for(before, replicas),
        )

    return [(partition_change, "_complete_reassignment", complete)]


def _offsets_told_too_early() -> list[Patch]:
    """A coordinator answers when it has written, not when its followers have."""
    original = InternalLog.append

    def append(self: InternalLog, *args: Any, **options: Any) -> Promise[int]:
        appended = original(self, *args, **options)
        return appended if appended.settled else Promise.resolved(0)

    return [(InternalLog, "append", append)]


def _pending_offsets_forgotten() -> list[Patch]:
    """A new coordinator of a group overlooks what a transaction has still to decide."""
    return [(_Load, "_take_pending", lambda _self, _record: None)]


_LOST = frozenset({"L1", "L2", "L10", "L11", "L13"})
_TORN = frozenset({"L1", "L4", "L5", "L6", "L8", "L21"})

EPOCH_NOT_BEGUN = Bug("an epoch is not begun", _epoch_not_begun, frozenset({"epoch"}), 5)
EPOCH_NOT_SYNCED = Bug("forgotten epoch fsync", _epoch_not_synced, frozenset({"epoch"}), 20)

BUGS = [
    Bug("ack before isr", _ack_before_isr, frozenset({"L14"}), 3),
    Bug("truncate to high watermark", _truncate_to_high_watermark, _LOST, 5),
    Bug("isr join below the epoch start", _join_below_epoch_start, _LOST, 20),
    Bug("a proposed replica does not count", _proposed_does_not_count, _LOST | {"L12"}, 5),
    Bug("commit below the minimal isr", _commit_below_min_isr, _LOST | {"L14"}, 20),
    Bug("a new leader takes all for committed", _lead_to_the_end, _LOST | {"L14"}, 20),
    Bug("divergence unseen", _divergence_unseen, _LOST | {"live"}, 30),
    Bug("whoever is heard of joins", _lagging_count_as_caught_up, _LOST, 20),
    Bug("no fencing", _no_fencing, _LOST | {"L14"}, 20),
    Bug("stale broker epoch accepted", _stale_broker_epoch, _LOST | {"L16"}, 10),
    EPOCH_NOT_BEGUN,
    EPOCH_NOT_SYNCED,
    Bug("a move without copying", _move_without_copying, _LOST | {"L12", "L15", "L16"}, 20),
    Bug("offsets are told too early", _offsets_told_too_early, _TORN | {"L17"}, 30),
    Bug("pending offsets are forgotten", _pending_offsets_forgotten, _TORN | {"L17"}, 20),
    Bug("open transactions are read", _stable_to_high_watermark, _TORN | {"L9"}, 15),
    Bug("a marker that was refused counts", _marker_refused_is_written, _TORN | {"live"}, 20),
    Bug("a prepared end is not taken up", _prepared_is_not_taken_up, _TORN | {"live"}, 30),
]

FIRST_SEED = {
    "isr join below the epoch start": 285,
    "forgotten epoch fsync": 30,
    "whoever is heard of joins": 15,
    "offsets are told too early": 45,
    "a marker that was refused counts": 8,
}
"""Where the seeds of a bug begin, if not at 0: the rare ones are looked for where they are met."""
