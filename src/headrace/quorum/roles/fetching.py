"""What follower and observer share: fetching from a leader, and keeping what comes.

Owns: the one fetch under way, and the snapshot that is fetched when the log no longer helps.
Must not know: votes, or what happens when a leader is silent.
Spec: KIP-595 (Fetch), KIP-630 (FetchSnapshot), KIP-1166 (the fetch tells our high watermark).

A fetch at offset n tells the leader that everything before n is durable here. So:
1. A response brings entries; they are written, and a sync begins.
2. Nothing is fetched while a written entry is not synced.
3. The sync is done: the next fetch says so.

Invariants: one request is under way, and only its own answer is read; nothing before the high
watermark is ever cut off.
"""

from typing import TYPE_CHECKING

from headrace.quorum.batches import cut_batches
from headrace.quorum.events import SnapshotChunk, SnapshotReceived
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.messages import NONE, fetch_request, fetch_snapshot_request
from headrace.quorum.roles.role import Role
from headrace.quorum.snapshots import SnapshotDownload
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import fetch, fetch_snapshot

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode

NO_REQUEST = -1


class Fetching(Role):
    def __init__(self, node: "RaftNode", has_fetched: bool = False) -> None:
        super().__init__(node)
        self.has_fetched = has_fetched
        """The leader of this epoch has answered us."""

    def on_enter(self) -> None:
        self._request_id = NO_REQUEST
        self._request_ends_ms = 0
        self._fetch_at_ms: int | None = None
        """When to fetch again after a fetch that failed."""
        self._download: SnapshotDownload | None = None
        self.maybe_fetch()

    def source_id(self) -> int | None:
        """Whom to fetch from."""
        raise NotImplementedError

    def vouches_for_leader(self) -> bool:
        return self.has_fetched

    def on_fetched(self) -> None:
        """The leader answered."""

    def on_not_leading(self) -> None:
        """Whom we asked does not lead, and we have learned of nobody else who does."""

    # -- asking --------------------------------------------------------------------------------

    def maybe_fetch(self) -> None:
        node, download = self.node, self._download
        if self._request_id != NO_REQUEST or not node.log.is_synced:
            return
        if download is not None and download.is_complete:
            return
        source_id = self.source_id()
        if source_id is None:
            return
        settings = node.settings
        message: Message
        if download is None:
            message = fetch_request(
                node.me,
                node.epoch,
                node.log,
                node.high_watermark,
                settings.fetch_max_wait_ms,
                settings.fetch_bytes_max,
            )
        else:
            message = fetch_snapshot_request(
                node.me,
                node.epoch,
                download.snapshot_id,
                download.position,
                settings.snapshot_chunk_bytes_max,
            )
        self._request_id = node.send(source_id, message)
        self._request_ends_ms = node.now_ms + settings.request_timeout_ms

    def _fetch_later(self) -> None:
        self._fetch_at_ms = self.node.now_ms + self.node.settings.retry_backoff_ms

    def next_deadline_ms(self) -> int | None:
        if self._fetch_at_ms is not None:
            return self._fetch_at_ms
        return self._request_ends_ms if self._request_id != NO_REQUEST else None

    def on_deadline(self) -> None:
        now_ms = self.node.now_ms
        if self._request_id != NO_REQUEST and now_ms >= self._request_ends_ms:
            self._request_id = NO_REQUEST
            self.maybe_fetch()
        elif self._fetch_at_ms is not None and now_ms >= self._fetch_at_ms:
            self._fetch_at_ms = None
            self.maybe_fetch()

    def on_log_synced(self) -> None:
        if self._fetch_at_ms is None:
            self.maybe_fetch()

    def on_failure(self, request_id: int, refused: bool) -> None:  # noqa: ARG002
        if request_id == self._request_id:
            self._request_id = NO_REQUEST
            self._fetch_later()

    # -- answers -------------------------------------------------------------------------------

    def on_response(self, request_id: int, message: Message) -> None:
        if request_id != self._request_id:
            return
        self._request_id = NO_REQUEST
        is_good = False
        match message:
            case fetch.FetchResponse(error_code=0, responses=[topic]) if topic.partitions:
                is_good = self._on_fetched_records(topic.partitions[0])
            case fetch_snapshot.FetchSnapshotResponse(error_code=0, topics=[part]) if (
                part.partitions
            ):
                is_good = self._on_fetched_chunk(part.partitions[0])
        node = self.node
        if not is_good:
            self._fetch_later()
        elif not node.reconsider_membership():
            self.maybe_fetch()

    def _on_fetched_records(self, partition: fetch.PartitionData) -> bool:
        node = self.node
        leader = partition.current_leader
        if partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.on_not_leading()
        if partition.error_code != NONE or leader.leader_epoch != node.epoch:
            return False
        self.has_fetched = True
        self.on_fetched()
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging.epoch >= 0:
            end = SnapshotId(diverging.end_offset, diverging.epoch)
            node.truncate_to(node.log.truncation_for(end))
        elif snapshot.epoch >= 0:
            self._download = SnapshotDownload(SnapshotId(snapshot.end_offset, snapshot.epoch))
        else:
            return self._on_entries(partition)
        return True

    def _on_entries(self, partition: fetch.PartitionData) -> bool:
        node, log = self.node, self.node.log
        records = partition.records or b""
        batches = cut_batches(records, log.end_offset, log.last_epoch, node.epoch)
        node.append(batches)
        node.leader_high_watermark = partition.high_watermark
        node.maybe_raise_high_watermark(min(partition.high_watermark, log.end_offset))
        return bool(batches) or not records

    def _on_fetched_chunk(
        self, partition: fetch_snapshot.FetchSnapshotResponsePartitionSnapshot
    ) -> bool:
        download = self._download
        if partition.error_code != NONE or download is None:
            # Another snapshot may have taken its place: a fetch will tell.
            self._download = None
            return False
        data = partition.unaligned_records or b""
        if partition.position != download.position or not data:
            self._download = None
            return False
        self.on_fetched()
        download.position += len(data)
        download.is_complete = download.position >= partition.size
        self.node.ready.snapshot_chunk = SnapshotChunk(
            download.snapshot_id, partition.position, data, download.is_complete
        )
        return True

    def on_snapshot_received(self, event: SnapshotReceived) -> None:
        download = self._download
        if download is None or download.snapshot_id != event.snapshot_id:
            super().on_snapshot_received(event)
            return
        self._download = None
        self.node.install_snapshot(event)
        if not self.node.reconsider_membership():
            self.maybe_fetch()

    def on_snapshot_failed(self, snapshot_id: SnapshotId) -> None:
        download = self._download
        if download is not None and download.snapshot_id == snapshot_id:
            self._download = None
            self._fetch_later()
