"""One partition on its way behind a leader: what to ask next, and what an answer does to its log.

Owns: the follower's side of one partition: the fetch offset, cuts, appends, the high watermark it
was told. Must not know: connections, sessions, other partitions.
Spec: Kafka's ReplicaFetcherThread; KIP-101, KIP-279, KIP-595 (the diverging epoch comes with the
fetch), KAFKA-4384 (one bad batch stops one partition, not the fetcher).

Invariants: what is appended continues the log without a gap and passed its checksum; a cut goes
where the leader's epochs say, never to the high watermark; the high watermark is at most the
leader's and at most our end.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from headrace.base.errors import DiskFullError, StorageError
from headrace.broker.replication.truncation import cut_for
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.fetch import PartitionData
from headrace.wire.kafka.record_batch import HEADER_BYTES, MAGIC, crc_of, read_header

if TYPE_CHECKING:
    from headrace.broker.partition import Partition


class Next(Enum):
    """What the fetcher does with the partition."""

    FETCH = auto()
    BACK_OFF = auto()
    """Ask again a little later: the leader or we are behind with the metadata."""
    FIND_OFFSETS = auto()
    """Out of range: ask the leader where its log starts and ends."""
    STOP = auto()
    """Until the metadata says something new, or for good where the disk failed."""


class Position(NamedTuple):
    """What a fetch says of the partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Following:
    __slots__ = (
        "is_in_sync",
        "leader_epoch",
        "leader_high_watermark",
        "partition",
        "pauses",
        "retry_at_ms",
    )

    def __init__(self, partition: "Partition", leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.retry_at_ms = 0
        self.pauses = 0
        """Back-offs in a row."""
        self.is_in_sync = False
        """Whether the last answer left nothing that is committed to be fetched."""
        self.leader_high_watermark = 0
        """As of the last answer, whether we could use it or not."""

    @property
    def key(self) -> tuple[bytes, int]:
        return self.partition.topic_id, self.partition.index

    @property
    def lag_records(self) -> int:
        """How many committed records we lack. Not what the leader has beyond: nobody has that yet
        who could be behind with it."""
        return max(0, self.leader_high_watermark - self.partition.log.log_end_offset)

    @property
    def position(self) -> Position:
        log = self.partition.log
        return Position(
            self.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset
        )

    def on_answer(self, data: PartitionData, asked: Position) -> Next:
        """`asked`: as it was sent. An answer to an older question changes nothing."""
        if self.partition.error:
            return Next.STOP
        if asked != self.position:
            return Next.FETCH
        error = ErrorCode.of(data.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return Next.FIND_OFFSETS
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            return Next.STOP
        if error:
            return Next.BACK_OFF
        self.leader_high_watermark = data.high_watermark
        try:
            return self._apply(data)
        except DiskFullError as failure:
            self.partition.fail(failure)
            return Next.BACK_OFF  # out of the ISR after a while, and back when there is room
        except StorageError as failure:
            self.partition.fail(failure)
            return Next.STOP

    def _apply(self, data: PartitionData) -> Next:
        diverging = data.diverging_epoch
        if diverging.epoch >= 0:
            self._cut(diverging.epoch, diverging.end_offset)
            return Next.FETCH
        log = self.partition.log
        records = data.records
        if records is not None and len(records):
            view = memoryview(records)
            sound = sound_bytes(view, log.log_end_offset)
            if not sound:
                return Next.BACK_OFF
            log.append_follower(view[:sound])
        self.partition.on_leader_offsets(data.high_watermark, data.log_start_offset)
        self.is_in_sync = data.high_watermark <= log.log_end_offset
        return Next.FETCH

    def _cut(self, leader_epoch: int, leader_end: int) -> None:
        log = self.partition.log
        own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
        self.partition.truncate_to(
            cut_for(leader_epoch, leader_end, own_epoch, own_end, log.log_end_offset)
        )

    def on_leader_range(self, log_start_offset: int, log_end_offset: int) -> None:
        """Our end is outside the leader's log: too long after an unclean election, or too old."""
        if self.partition.error:
            return
        own_end = self.partition.log.log_end_offset
        try:
            if own_end > log_end_offset:
                self.partition.truncate_to(log_end_offset)
            elif own_end < log_start_offset:
                self.partition.start_over_at(log_start_offset)
        except StorageError as failure:
            self.partition.fail(failure)


def sound_bytes(records: memoryview, next_offset: int) -> int:
    """The length of the whole batches at the front that continue the log and are undamaged."""
    position, size = 0, len(records)
    while size - position >= HEADER_BYTES:
        header = read_header(records, position)
        if header.magic != MAGIC or header.size_bytes < HEADER_BYTES:
            break
        if position + header.size_bytes > size or header.base_offset < next_offset:
            break
        if crc_of(records, position, header.size_bytes) != header.crc:
            break
        next_offset = header.next_offset
        position += header.size_bytes
    return position
