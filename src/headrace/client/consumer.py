"""A blocking reader of partitions from given offsets.

Owns: the next offset of each partition and the choice of the leader to ask. Must not know:
groups (see `group`), how records are shown. Control batches are skipped; a batch that
starts before the asked offset is cut to it; a batch whose CRC is wrong is an error, and the
position stays before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.base.errors import ProtocolError
from headrace.client.cluster import LEADER_MOVED, Cluster
from headrace.client.errors import DamagedBatch, ServerError, Unreachable
from headrace.client.fetch import READ_UNCOMMITTED, FetchedPartition, Position, fetch_from
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from headrace.wire.kafka.control_records import ControlRecordType, decode_control_key
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import InvalidRecord, is_crc_valid, read_batches, read_records

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Consumer:
    """Reads the partitions in `positions`, moving each forward as records are returned.

    `reset` says where to go on when an offset is no longer (or not yet) in the log:
    EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, or None to fail. With READ_COMMITTED records of aborted
    transactions are left out, and reading stops before the first transaction that is open.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: dict[TopicPartition, int],
        *,
        reset: int | None = None,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        assert reset in (None, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        self.cluster = cluster
        self.positions = dict(positions)
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.reset = reset
        self.isolation_level = isolation_level

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Records of one round of fetches; waits at most `max_wait_ms` when there are none.

        A position moves when its record is taken from the iterator, so what the caller
        did not take is fetched again.
        """
        if not self.positions:
            return
        for fetched in self.cluster.retry(lambda _: self._round(max_wait_ms)):
            try:
                yield from self._records_of(fetched)
            except ProtocolError as error:
                offset = self.positions[fetched.topic, fetched.partition]
                raise DamagedBatch(fetched.topic, fetched.partition, offset, str(error)) from error

    def at_end(self, ends: dict[TopicPartition, int]) -> bool:
        """Has every partition been read up to `ends`?"""
        return all(self.positions.get(where, end) >= end for where, end in ends.items())

    def _round(self, max_wait_ms: int) -> list[FetchedPartition]:
        by_leader: dict[int, list[Position]] = {}
        for (topic, partition), offset in self.positions.items():
            leader = self.cluster.leader_id(topic, partition)
            if leader < 0:
                self.cluster.topics.pop(topic, None)
                raise ServerError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
            by_leader.setdefault(leader, []).append(Position(topic, partition, offset))
        share_ms = max_wait_ms // len(by_leader)
        fetched: list[FetchedPartition] = []
        for leader, positions in by_leader.items():
            try:
                connection = self.cluster.connection_to_node(leader)
                answers = fetch_from(
                    self.cluster,
                    connection,
                    positions,
                    max_wait_ms=share_ms,
                    isolation_level=self.isolation_level,
                )
            except Unreachable:
                self.cluster.topics.clear()
                raise
            fetched.extend(answer for answer in answers if self._is_good(answer))
        return fetched

    def _is_good(self, answer: FetchedPartition) -> bool:
        where = (answer.topic, answer.partition)
        if answer.error_code == 0:
            self.high_watermarks[where] = answer.high_watermark
            return True
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.reset is not None:
            self.positions[where] = list_offsets(self.cluster, [where], self.reset)[where]
            return False
        if answer.error_code in LEADER_MOVED:
            self.cluster.topics.pop(answer.topic, None)
        raise ServerError(
            f"fetch of {answer.topic}-{answer.partition} from offset {self.positions.get(where)}",
            answer.error_code,
        )

    def _records_of(self, fetched: FetchedPartition) -> Iterator[ConsumedRecord]:
        where = (fetched.topic, fetched.partition)
        aborted = Aborted(fetched.aborted)
        for header, batch in read_batches(fetched.records):
            if not is_crc_valid(batch):
                raise InvalidRecord("its CRC is wrong")
            is_left_out = aborted.leaves_out(header, batch)
            if header.next_offset <= self.positions[where]:
                continue
            if not header.is_control and not is_left_out:
                for record in read_records(batch):
                    if record.offset < self.positions[where]:
                        continue
                    self.positions[where] = record.offset + 1
                    yield ConsumedRecord(
                        fetched.topic,
                        fetched.partition,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        list(record.headers),
                    )
            # Compaction leaves holes at the end of a batch: its header knows the next offset.
            self.positions[where] = max(self.positions[where], header.next_offset)


class Aborted:
    """The aborted transactions of one fetch, fed its batches in order."""

    def __init__(self, transactions: tuple[tuple[int, int], ...]) -> None:
        self._upcoming = sorted((first, producer_id) for producer_id, first in transactions)
        self._producers: set[int] = set()

    def leaves_out(self, header: BatchHeader, batch: memoryview) -> bool:
        """True for records of an aborted transaction."""
        while self._upcoming and self._upcoming[0][0] <= header.last_offset:
            self._producers.add(self._upcoming.pop(0)[1])
        if not header.is_transactional or header.producer_id not in self._producers:
            return False
        if header.is_control and _is_abort(batch):
            self._producers.discard(header.producer_id)
        return True


def _is_abort(batch: memoryview) -> bool:
    for record in read_records(batch):
        return decode_control_key(record.key or b"") is ControlRecordType.ABORT
    return False


def start_positions(
    cluster: Cluster, partitions: list[TopicPartition], start: int, *, is_offset: bool
) -> dict[TopicPartition, int]:
    """Where to begin: at an offset, or at the first record of a timestamp on.

    A partition with nothing at or after the start begins at its end, one that has lost the
    offset begins at its first record: where that matters, the caller compares.
    """
    if is_offset:
        begins = list_offsets(cluster, partitions, EARLIEST_TIMESTAMP)
        ends = list_offsets(cluster, partitions, LATEST_TIMESTAMP)
        return {where: max(begins[where], min(start, ends[where])) for where in partitions}
    found = list_offsets(cluster, partitions, start)
    missing = [where for where, offset in found.items() if offset < 0]
    if missing:
        found.update(list_offsets(cluster, missing, LATEST_TIMESTAMP))
    return found
