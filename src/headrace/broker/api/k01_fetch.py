"""Fetch (key 1), versions 4–18.

5 log start offset · 7 incremental sessions (KIP-227) · 9 leader epoch fencing (KIP-320) · 10 zstd
11 rack (KIP-392) · 12 flexible, last fetched epoch and divergence (KIP-595) · 13 topic ids
(KIP-516) · 15 replica state (KIP-903) · 16 node endpoints (KIP-951; none are sent) · 17 directory
ids · 18 high watermark of replicas.

A replica's fetch (`replica_id` >= 0) reads up to the end of the log, and its offset acknowledges
all before it. A consumer's of version 11 or later is also served by a follower, up to the high
watermark that it knows; the leader may name one in the consumer's rack instead of giving records.

The hot path: records are never read here. The answer is header bytes and (file, position,
length) regions that the runtime sends by sendfile.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.base.answers import Slot
from headrace.base.clock import Timer
from headrace.base.errors import StorageError
from headrace.base.network import Part
from headrace.base.storage import FileRegion
from headrace.broker.fetch_sessions import FetchSession, Wanted, wanted_of
from headrace.broker.partition import Partition
from headrace.broker.replica_selector import NOBODY, nearest_replica
from headrace.log.partition_log import OffsetOutOfRange
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import FetchedPartition, FetchFrame, encode_fetch_response_head

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TopicKey = str | bytes
_TOPIC_IDS_SINCE = 13
_READ_COMMITTED = 1
_FOLLOWERS_SERVE_SINCE = 11
_PACED_MS = 2
_PACED_BYTES = 64 << 10
_NONE_HELD: "frozenset[Partition]" = frozenset()

OnAnswered = Callable[["Fetch", list[Part]], None]


class Fetch(Slot):
    """One fetch request from its arrival to its answer, in the place of which it stands.

    Nothing that it holds on to holds on to it: thousands a second must not wait for the garbage
    collector, whose turn all clients feel.
    """

    __slots__ = (
        "_available_bytes",
        "_broker",
        "_correlation_id",
        "_frame",
        "_full",
        "_held",
        "_on_answered",
        "_pause_ms",
        "_session",
        "_timer",
        "_waiting_on",
        "_wanted",
        "version",
    )

    def __init__(
        self,
        broker: "Broker",
        frame: FetchFrame,
        version: int,
        correlation_id: int,
        on_answered: OnAnswered,
    ) -> None:
        self.parts = None
        self._broker = broker
        self._frame = frame
        self.version = version
        self._correlation_id = correlation_id
        self._on_answered = on_answered
        self._session: FetchSession | None = None
        self._full = True
        self._wanted: list[Wanted] = []
        self._waiting_on: list[Partition] = []
        self._timer: Timer | None = None
        self._available_bytes = 0
        self._held: frozenset[Partition] = _NONE_HELD
        """Partitions that a throttled replica gets nothing of for now."""
        self._pause_ms = 0

    def start(self) -> None:
        """Answer now, or wait for `min_bytes` or `max_wait_ms`, whichever comes first."""
        frame = self._frame
        error, session, full = self._broker.fetch_sessions.resolve(
            frame, self.version >= _TOPIC_IDS_SINCE
        )
        if error:
            self._send(int(error), 0, [])
            return
        self._session = session
        self._full = full
        self._wanted = list(session.wanted.values()) if session is not None else wanted_of(frame)
        if frame.replica_id >= 0:
            self._acknowledge()
        rows, byte_count, urgent = self._read()
        if (
            urgent
            or frame.max_wait_ms <= 0
            or byte_count >= frame.min_bytes
            or not self._wanted
            or self._broker.stopping
        ):
            if self._comes_soon(byte_count) and not urgent:
                self._timer = self._broker.timers.call_later(1, self._complete)
                self._broker.waiting_fetches.add(self)
                return
            self._finish(rows)
            return
        self._wait(byte_count)

    def _comes_soon(self, byte_count: int) -> bool:
        """A replica that finds a little, just after its last answer.

        Many small writes are under way. A millisecond later there are some more of them, and all
        brokers do the work of a fetch once for all. One that found nothing is told of the next
        write at once: who writes one by one does not wait.
        """
        session = self._session
        if session is None or self._frame.replica_id < 0 or not 0 < byte_count < _PACED_BYTES:
            return False
        if self._broker.stopping or self._frame.max_wait_ms <= 0:
            return False
        return self._broker.clock.monotonic_ms() - session.answered_ms < _PACED_MS

    def _acknowledge(self) -> None:
        """A follower has all before the offsets that it asks for."""
        frame, broker = self._frame, self._broker
        now_ms = broker.clock.monotonic_ms()
        for wanted in self._wanted:
            partition = broker.partitions.find(wanted.topic, wanted.index)
            if partition is None or not _is_follower(partition, wanted, frame.replica_id):
                continue
            if wanted.last_fetched_epoch >= 0 and _divergence(partition, wanted) is not None:
                continue  # what it has is not what we have
            broker.replication.on_fetched(
                partition,
                frame.replica_id,
                frame.replica_epoch,
                wanted.fetch_offset,
                wanted.log_start_offset,
                now_ms,
            )

    # -- waiting -----------------------------------------------------------------------

    def _wait(self, byte_count: int) -> None:
        self._available_bytes = byte_count
        for one in self._wanted:
            partition = self._broker.partitions.find(one.topic, one.index)
            # What is appended to a partition that is held back would only end the wait early.
            if partition is not None and partition not in self._held:
                partition.wait(self, follower=self._frame.replica_id >= 0)
                self._waiting_on.append(partition)
        wait_ms = self._frame.max_wait_ms
        if self._held:
            wait_ms = min(wait_ms, self._pause_ms)
        self._timer = self._broker.timers.call_later(wait_ms, self._complete)
        self._broker.waiting_fetches.add(self)

    def on_appended(self, byte_count: int) -> None:
        self._available_bytes += byte_count
        if self._available_bytes < self._frame.min_bytes:
            return
        if self._frame.isolation_level == _READ_COMMITTED and self._is_held_back():
            return
        self._complete()

    def _is_held_back(self) -> bool:
        """Whether what was counted belongs to open transactions, and too little is left without."""
        for partition in self._waiting_on:
            if partition.last_stable_offset < partition.high_watermark:
                _, byte_count, urgent = self._read()
                return not urgent and byte_count < self._frame.min_bytes
        return False

    def on_gone(self) -> None:
        self._complete()

    def complete_now(self) -> None:
        """The broker stops: answer with what there is."""
        self._complete()

    def cancel(self) -> None:
        """The connection is gone: nobody waits for the answer."""
        for partition in self._waiting_on:
            partition.forget(self)
        self._waiting_on = []
        self._broker.waiting_fetches.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _complete(self) -> None:
        self.cancel()
        rows, _, _ = self._read()
        self._finish(rows)

    # -- reading -----------------------------------------------------------------------

    def _read(self) -> tuple[list[tuple[Wanted, FetchedPartition]], int, bool]:
        """A row for each partition, the bytes in them, and whether one must be told at once."""
        frame = self._frame
        broker = self._broker
        left = min(frame.max_bytes, broker.fetch_bytes_max)
        is_follower = frame.replica_id >= 0
        committed_only = frame.isolation_level == _READ_COMMITTED and not is_follower
        by_follower = self.version >= _FOLLOWERS_SERVE_SINCE and not is_follower
        rack_id = frame.rack_id if by_follower and broker.selects_by_rack else ""
        throttles = is_follower and broker.replication.leader_throttle.is_set
        self._held = _NONE_HELD
        rows: list[tuple[Wanted, FetchedPartition]] = []
        total = 0
        urgent = False
        for wanted in self._wanted:
            partition = broker.partitions.find(wanted.topic, wanted.index)
            if partition is None:
                error = broker.partitions.missing(wanted.topic, wanted.index)
            else:
                error = _refusal_of(partition, wanted, frame.replica_id, by_follower=by_follower)
            if error or partition is None:
                urgent = True
                rows.append((wanted, _error_row(wanted.index, error)))
                continue
            if rack_id and partition.is_leader:
                nearest = nearest_replica(broker, partition, rack_id, wanted.fetch_offset)
                if nearest != NOBODY:
                    urgent = True
                    rows.append((wanted, _referral(partition, wanted.index, nearest)))
                    continue
            log = partition.log
            end_offset = log.log_end_offset if is_follower else partition.high_watermark
            stable_offset = partition.last_stable_offset
            if committed_only:
                end_offset = stable_offset
            region: FileRegion | None = None
            diverging: tuple[int, int] | None = None
            if wanted.last_fetched_epoch >= 0:
                diverging = _divergence(partition, wanted)
            if diverging is not None:
                urgent = True
            elif throttles and self._is_held_by_throttle(partition, wanted.fetch_offset):
                pass
            elif wanted.fetch_offset != end_offset and (left > 0 or total == 0):
                try:
                    region = log.read(
                        wanted.fetch_offset,
                        min(wanted.max_bytes, left),
                        end_offset,
                        at_least_one=total == 0,
                    ).region
                except OffsetOutOfRange:
                    urgent = True
                    rows.append((wanted, _error_row(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE)))
                    continue
                except StorageError as failure:
                    partition.fail(failure)
                    urgent = True
                    rows.append((wanted, _error_row(wanted.index, partition.error)))
                    continue
            length = 0
            aborted: list[tuple[int, int]] | None = [] if committed_only else None
            if region is not None:
                length = region.length
                if committed_only:
                    try:
                        aborted = log.aborted_in(wanted.fetch_offset, region, end_offset)
                    except StorageError as failure:
                        partition.fail(failure)
                        urgent = True
                        rows.append((wanted, _error_row(wanted.index, partition.error)))
                        continue
                total += length
                left -= length
                if wanted.fetch_offset < log.active.base_offset:
                    # A read ends with its segment: what lacks is in the next one, not to come.
                    urgent = True
            rows.append(
                (
                    wanted,
                    FetchedPartition(
                        wanted.index,
                        0,
                        partition.high_watermark,
                        stable_offset,
                        log.log_start_offset,
                        aborted,
                        -1,
                        region,
                        length,
                        diverging,
                    ),
                )
            )
        return rows, total, urgent

    def _is_held_by_throttle(self, partition: Partition, fetch_offset: int) -> bool:
        """A replica that catches up gets nothing while the leader's rate is exceeded (KIP-73)."""
        broker, in_sync = self._broker, partition.in_sync
        if in_sync is None or self._frame.replica_id in in_sync.isr:
            return False
        if fetch_offset >= partition.log.log_end_offset:
            return False
        throttle = broker.replication.leader_throttle
        replicas = partition.config.leader_replication_throttled_replicas
        if not throttle.names(replicas, partition.index):
            return False
        pause_ms = throttle.pause_ms(broker.clock.monotonic_ms())
        if not pause_ms:
            return False
        self._pause_ms = pause_ms
        self._held |= {partition}
        throttle.held_count += 1
        return True

    def _count_throttled(self, rows: list[tuple[Wanted, FetchedPartition]]) -> None:
        broker, throttle = self._broker, self._broker.replication.leader_throttle
        now_ms = broker.clock.monotonic_ms()
        for wanted, row in rows:
            partition = broker.partitions.find(wanted.topic, wanted.index)
            if row.records_length and partition is not None:
                replicas = partition.config.leader_replication_throttled_replicas
                if throttle.names(replicas, partition.index):
                    throttle.record(row.records_length, now_ms)

    def _finish(self, rows: list[tuple[Wanted, FetchedPartition]]) -> None:
        if self._frame.replica_id < 0:
            self._count_sent(rows)
        elif self._broker.replication.leader_throttle.is_set:
            self._count_throttled(rows)
        session = self._session
        if session is None:
            self._send(0, 0, rows)
            return
        if self._frame.replica_id >= 0:
            session.answered_ms = self._broker.clock.monotonic_ms()
        told: list[tuple[Wanted, FetchedPartition]] = []
        served: list[Wanted] = []
        for wanted, row in rows:
            if self._full or _is_news(wanted, row):
                told.append((wanted, row))
            wanted.told_error = row.error_code
            # A reader that must cut its log takes nothing else from the answer.
            if not row.error_code and row.diverging_epoch is None:
                wanted.told_high_watermark = row.high_watermark
                wanted.told_log_start_offset = row.log_start_offset
            if row.records_length:
                served.append(wanted)
        if served and len(served) < len(rows):
            session.to_the_end(served)
        self._send(0, session.session_id, told)

    def _count_sent(self, rows: list[tuple[Wanted, FetchedPartition]]) -> None:
        find = self._broker.partitions.find
        for wanted, row in rows:
            if row.records_length:
                partition = find(wanted.topic, wanted.index)
                if partition is not None:
                    partition.sent_bytes += row.records_length

    def _send(
        self, error: int, session_id: int, rows: list[tuple[Wanted, FetchedPartition]]
    ) -> None:
        topics: dict[TopicKey, list[FetchedPartition]] = {}
        for wanted, row in rows:
            topics.setdefault(wanted.topic, []).append(row)
        self._on_answered(
            self,
            encode_fetch_response_head(
                self.version, self._correlation_id, error, session_id, list(topics.items())
            ),
        )


def _referral(partition: Partition, index: int, replica: int) -> FetchedPartition:
    """No records: they are to be had from that replica."""
    return FetchedPartition(
        index,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        None,
        replica,
    )


def _refusal_of(
    partition: Partition, wanted: Wanted, replica_id: int, *, by_follower: bool
) -> ErrorCode:
    refusal = partition.refusal
    if by_follower and partition.is_following and not partition.error:
        refusal = ErrorCode.NONE
    refusal = refusal or partition.leader_epoch_refusal(wanted.current_leader_epoch)
    if not refusal and replica_id >= 0 and not _is_follower(partition, wanted, replica_id):
        # With our own epoch it may know of a move that we have not heard of yet.
        has_epoch = wanted.current_leader_epoch >= 0
        return ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return refusal


def _is_follower(partition: Partition, wanted: Wanted, replica_id: int) -> bool:
    in_sync = partition.in_sync
    if in_sync is None or replica_id not in in_sync.followers:
        return False
    return not partition.leader_epoch_refusal(wanted.current_leader_epoch)


def _divergence(partition: Partition, wanted: Wanted) -> tuple[int, int] | None:
    """Where the reader's log leaves ours, if it does (KIP-320, KIP-595)."""
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or (epoch == wanted.last_fetched_epoch and wanted.fetch_offset <= end_offset):
        return None
    return epoch, end_offset


def _error_row(index: int, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(index, int(error))


def _is_news(wanted: Wanted, row: FetchedPartition) -> bool:
    """True if an incremental answer must name the partition."""
    return bool(
        row.records_length
        or row.error_code
        or row.diverging_epoch is not None
        or row.preferred_read_replica >= 0
        or row.high_watermark != wanted.told_high_watermark
        or row.log_start_offset != wanted.told_log_start_offset
        or wanted.told_error
    )
