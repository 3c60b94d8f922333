"""A leader's answers to Fetch and FetchSnapshot, and the fetches that wait for something new.

Owns: what a fetching replica is told, and the waiting fetches. Must not know: elections, or how
records are read (a reply says where they lie).
Spec: KIP-595, KIP-630, KIP-853 (a replica is its id and directory), KIP-1166 (a fetch that knows an
older high watermark does not wait), KAFKA-12181 (a replica may come back with less).

Invariants: a replica has one waiting fetch; each is answered within its `max_wait_ms`, and at once
when leadership ends.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.quorum import replies
from headrace.quorum.election_state import NO_LEADER, ReplicaKey
from headrace.quorum.events import LogRead, SnapshotRead
from headrace.quorum.log_view import Agreement, SnapshotId
from headrace.quorum.messages import (
    HIGH_WATERMARK_UNKNOWN,
    NONE,
    fetch_response,
    fetch_snapshot_response,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import fetch, fetch_snapshot

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode
    from headrace.quorum.progress import ProgressTable


class _Waiting(NamedTuple):
    token: int
    request: fetch.FetchRequest
    partition: fetch.FetchPartition
    ends_ms: int


class Replication:
    """Of one leader, for one epoch."""

    def __init__(self, node: "RaftNode", progress: "ProgressTable") -> None:
        self._node = node
        self._progress = progress
        self._waiting: dict[ReplicaKey, _Waiting] = {}

    # -- Fetch ---------------------------------------------------------------------------------

    def on_fetch(
        self, token: int, request: fetch.FetchRequest, partition: fetch.FetchPartition
    ) -> bool:
        """True if a replica's progress was noted, so that the high watermark may move."""
        node = self._node
        replica_id = max(request.replica_id, request.replica_state.replica_id)
        if not self._is_of_epoch(token, request, partition.current_leader_epoch, replica_id):
            return False
        key = ReplicaKey(replica_id, partition.replica_directory_id)
        agreement, _ = node.log.compare(partition.fetch_offset, partition.last_fetched_epoch)
        if replica_id >= 0:
            self._note(key, partition.fetch_offset, agreement)
        known_high_watermark = partition.high_watermark
        has_news = (
            agreement is not Agreement.VALID
            or partition.fetch_offset < node.log.end_offset
            or request.max_wait_ms <= 0
            or (
                known_high_watermark != HIGH_WATERMARK_UNKNOWN
                and known_high_watermark < node.high_watermark
            )
        )
        if has_news:
            self._answer(token, partition)
        else:
            self._park(key, token, request, partition)
        return replica_id >= 0 and agreement is Agreement.VALID

    def _is_of_epoch(self, token: int, request: Message, epoch: int, replica_id: int) -> bool:
        node = self._node
        if epoch == node.epoch:
            return True
        error = ErrorCode.FENCED_LEADER_EPOCH
        if epoch > node.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
            if replica_id >= 0:
                # An epoch that exists needs a leader that knows it.
                node.adopt(epoch, NO_LEADER)
        node.reply(token, replies.leader_error(node, request, error))
        return False

    def _note(self, key: ReplicaKey, fetch_offset: int, agreement: Agreement) -> None:
        node = self._node
        progress = self._progress.on_contact(key, node.voters.latest, node.now_ms)
        if agreement is Agreement.VALID:
            progress.end_offset = fetch_offset
            if fetch_offset >= node.log.end_offset:
                progress.last_caught_up_ms = node.now_ms

    def _park(
        self,
        key: ReplicaKey,
        token: int,
        request: fetch.FetchRequest,
        partition: fetch.FetchPartition,
    ) -> None:
        older = self._waiting.pop(key, None)
        if older is not None:
            self._answer(older.token, older.partition)
        wait_ms = min(request.max_wait_ms, self._node.settings.fetch_timeout_ms)
        ends_ms = self._node.now_ms + wait_ms
        self._waiting[key] = _Waiting(token, request, partition, ends_ms)

    def _answer(self, token: int, asked: fetch.FetchPartition) -> None:
        node = self._node
        agreement, end = node.log.compare(asked.fetch_offset, asked.last_fetched_epoch)
        partition = fetch.PartitionData(
            high_watermark=node.high_watermark,
            last_stable_offset=node.high_watermark,
            log_start_offset=node.log.start_offset,
            current_leader=fetch.LeaderIdAndEpoch(
                leader_id=node.me.node_id, leader_epoch=node.epoch
            ),
            records=b"",
        )
        read = None
        if agreement is Agreement.DIVERGING:
            partition.diverging_epoch = fetch.EpochEndOffset(
                epoch=end.epoch, end_offset=end.end_offset
            )
        elif agreement is Agreement.SNAPSHOT:
            latest = node.snapshots.latest
            assert latest is not None, "a log that starts late has a snapshot"
            partition.snapshot_id = fetch.SnapshotId(
                end_offset=latest.end_offset, epoch=latest.epoch
            )
        elif asked.fetch_offset < node.log.end_offset:
            bytes_max = min(asked.partition_max_bytes, node.settings.fetch_bytes_max)
            read = LogRead(asked.fetch_offset, bytes_max)
        # Also to one that came by a bootstrap address: it knows our id now, and not yet where.
        node.reply(token, fetch_response(node.me, partition, node.voters.latest), read)

    # -- waiting -------------------------------------------------------------------------------

    def on_news(self) -> None:
        """The log or the high watermark moved."""
        waiting, self._waiting = self._waiting, {}
        for fetch_ in waiting.values():
            self._answer(fetch_.token, fetch_.partition)

    def next_deadline_ms(self) -> int | None:
        return min((fetch_.ends_ms for fetch_ in self._waiting.values()), default=None)

    def on_deadline(self) -> None:
        now_ms = self._node.now_ms
        for key, fetch_ in list(self._waiting.items()):
            if now_ms >= fetch_.ends_ms:
                del self._waiting[key]
                self._answer(fetch_.token, fetch_.partition)

    def on_leadership_ended(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for fetch_ in waiting.values():
            self._node.reply(fetch_.token, replies.not_leader(self._node, fetch_.request))

    # -- FetchSnapshot -------------------------------------------------------------------------

    def on_fetch_snapshot(
        self,
        token: int,
        request: fetch_snapshot.FetchSnapshotRequest,
        partition: fetch_snapshot.PartitionSnapshot,
    ) -> None:
        node = self._node
        if not self._is_of_epoch(
            token, request, partition.current_leader_epoch, request.replica_id
        ):
            return
        if request.replica_id >= 0:
            key = ReplicaKey(request.replica_id, partition.replica_directory_id)
            self._progress.on_contact(key, node.voters.latest, node.now_ms)
        snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        size_bytes = node.snapshots.size_of(snapshot_id)
        if size_bytes is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
            node.reply(token, replies.leader_error(node, request, error))
        elif not 0 <= partition.position < size_bytes:
            error = ErrorCode.POSITION_OUT_OF_RANGE
            node.reply(token, replies.leader_error(node, request, error))
        else:
            bytes_max = min(request.max_bytes, node.settings.snapshot_chunk_bytes_max)
            node.reply(
                token,
                fetch_snapshot_response(
                    node.me,
                    NONE,
                    node.me.node_id,
                    node.epoch,
                    snapshot_id,
                    size_bytes,
                    partition.position,
                ),
                None,
                SnapshotRead(snapshot_id, partition.position, bytes_max),
            )
