"""A ShareFetch from its arrival to its answer: acknowledgements first, then records or a wait.

Owns: one request: what it waits for and what it is answered. Must not know: transitions of records
(`partition`), how state is kept (`hosted`), bytes of records.

Records are acquired in the moment in which the answer is made: nobody holds what is still waited
for. Whole batches are sent as the log has them, by (file, position, length); which offsets of them
are the member's own is said beside.
"""

from typing import TYPE_CHECKING

from headrace.base.clock import Timer
from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.broker.share import reading
from headrace.broker.share.acknowledging import Acknowledged
from headrace.broker.share.hosted import HostedSharePartition
from headrace.broker.share.partition.states import AcquireMode, Acquisition
from headrace.broker.share.sessions import PartitionKey, ShareSession
from headrace.log.partition_log import OffsetOutOfRange
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_share_fetch import ShareFetchedPartition
from headrace.wire.kafka.messages.share_fetch import ShareFetchRequest

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

Rows = dict[PartitionKey, ShareFetchedPartition]

_LOOKS_MAX = 64
"""Reads of one partition in which all found is for nobody, before others get their turn."""


class ShareFetch:
    """The records of one request. Acknowledgements are done with when it begins."""

    __slots__ = (
        "_broker",
        "_is_waiting",
        "_promise",
        "_request",
        "_session",
        "_timer",
        "_waits_at",
        "connection_id",
    )

    def __init__(
        self,
        broker: "Broker",
        request: ShareFetchRequest,
        session: ShareSession,
        connection_id: int,
    ) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        self.connection_id = connection_id
        self._promise: Promise[Rows] = Promise()
        self._timer: Timer | None = None
        self._is_waiting = False
        self._waits_at: dict[Partition, HostedSharePartition | None] = {}

    def start(self) -> Promise[Rows]:
        """Resolved now, or when there is enough, or `max_wait_ms` are over."""
        rows = self._take() if self._has_enough() else {}
        request = self._request
        if rows or request.max_wait_ms <= 0 or request.max_records <= 0 or self._broker.stopping:
            self._promise.resolve(rows)
        else:
            self._wait()
        return self._promise

    # -- waiting -----------------------------------------------------------------------------

    def _wait(self) -> None:
        self._is_waiting = True
        self._timer = self._broker.timers.call_later(self._request.max_wait_ms, self.complete_now)
        self._broker.shares.waiting[self] = None
        self._wait_at_partitions()

    def _wait_at_partitions(self) -> None:
        """At the logs for new records, at the share-partitions for those that come back."""
        broker, group_id = self._broker, self._session.key[0]
        for key in self._session.partitions:
            partition = broker.partitions.find(*key)
            if partition is None:
                continue
            hosted = broker.shares.find(group_id, partition)
            if partition in self._waits_at and self._waits_at[partition] is hosted:
                continue
            partition.wait(self)
            if hosted is not None:
                hosted.wait(self)
            self._waits_at[partition] = hosted

    def on_appended(self, byte_count: int) -> None:  # noqa: ARG002 (what a partition tells)
        self._maybe_complete()

    def on_available(self) -> None:
        self._maybe_complete()

    def on_gone(self) -> None:
        self.complete_now()

    def _maybe_complete(self) -> None:
        if not self._is_waiting or not self._has_enough():
            return
        rows = self._take()
        if rows:
            self._finish(rows)
        elif self._is_waiting:
            self._wait_at_partitions()  # one may have been loaded anew

    def complete_now(self) -> None:
        """Time is up, or the broker stops: answer with what there is."""
        if self._is_waiting:
            self._finish({} if self._broker.stopping else self._take())

    def _finish(self, rows: Rows) -> None:
        self.cancel()
        self._promise.resolve(rows)

    def cancel(self) -> None:
        """Wait no more; nobody is answered by this."""
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._broker.shares.waiting.pop(self, None)
        waits_at, self._waits_at = self._waits_at, {}
        for partition, hosted in waits_at.items():
            partition.forget(self)
            if hosted is not None:
                hosted.forget(self)

    # -- looking -----------------------------------------------------------------------------

    def _has_enough(self) -> bool:
        """Whether `min_bytes` are there, or something has to be told. Nothing is acquired."""
        min_bytes = self._request.min_bytes
        if min_bytes <= 1:
            return True
        found = 0
        is_committed = self._is_committed()
        for key in self._session.partitions:
            partition, hosted, error = self._find(key)
            if error:
                return True
            if partition is None or hosted is None or hosted.state is None:
                continue
            offset = hosted.state.fetch_offset()
            read = None if offset is None else self._read(partition, offset, is_committed, found)
            if read is not None:
                found += read.region.length
            if found >= min_bytes:
                return True
        return False

    def _is_committed(self) -> bool:
        return self._broker.shares.settings(self._session.key[0]).is_read_committed

    def _find(
        self, key: PartitionKey
    ) -> tuple[Partition | None, HostedSharePartition | None, ErrorCode]:
        """A partition of ours with its share-partition, or what is to be told of it."""
        broker = self._broker
        partition = broker.partitions.find(*key)
        if partition is None:
            return None, None, broker.partitions.missing(*key)
        if partition.refusal:
            return partition, None, partition.refusal
        hosted = broker.shares.find_or_load(self._session.key[0], partition)
        if hosted.is_closed:
            return partition, None, hosted.error
        hosted.refresh()
        return partition, hosted, ErrorCode.NONE

    def _read(
        self, partition: Partition, offset: int, is_committed: bool, total: int
    ) -> reading.Reading | None:
        request = self._request
        max_bytes = min(request.max_bytes, self._broker.fetch_bytes_max) - total
        if max_bytes <= 0 and total:
            return None
        try:
            return reading.read(
                partition,
                offset,
                max(max_bytes, 0),
                is_committed=is_committed,
                at_least_one=not total,
            )
        except OffsetOutOfRange:
            return None  # cut off or not there yet: `refresh` and time will tell
        except StorageError as failure:
            partition.fail(failure)
            return None

    # -- taking ------------------------------------------------------------------------------

    def _take(self) -> Rows:
        """Acquire what there is, and a row for each partition with something to tell."""
        request = self._request
        rows: Rows = {}
        total = 0
        left = request.max_records
        settings = self._broker.shares.settings(self._session.key[0])
        lock_until_ms = self._broker.clock.monotonic_ms() + settings.lock_duration_ms
        mode = AcquireMode(request.share_acquire_mode)
        batch_size = request.batch_size if request.batch_size > 0 else left
        for key in self._session.in_turn():
            partition, hosted, error = self._find(key)
            if error:
                rows[key] = ShareFetchedPartition(key[1], int(error), error.message)
            if partition is None or hosted is None or left <= 0:
                continue
            asked = Acquisition(self._session.key[1], left, lock_until_ms, batch_size, mode)
            row = self._take_of(partition, hosted, asked, total, settings.is_read_committed)
            if row is not None:
                rows[key] = row
                total += row.records_length
                left -= sum(last - first + 1 for first, last, _ in row.acquired)
        return rows

    def _take_of(
        self,
        partition: Partition,
        hosted: HostedSharePartition,
        asked: Acquisition,
        total: int,
        is_committed: bool,
    ) -> ShareFetchedPartition | None:
        state = hosted.state
        if state is None:
            return None
        for _ in range(_LOOKS_MAX):
            offset = state.fetch_offset()
            if offset is None:
                return None
            read = self._read(partition, offset, is_committed, total)
            if read is None:
                return None
            try:
                acquired = state.acquire(asked, offset, read.batches())
            except StorageError as failure:
                partition.fail(failure)  # what was acquired goes with the partition
                return None
            if acquired:
                region = read.holding(acquired)
                partition.sent_bytes += region.length
                hosted.on_acquired(sum(last - first + 1 for first, last, _ in acquired))
                return ShareFetchedPartition(
                    partition.index,
                    records=region,
                    records_length=region.length,
                    acquired=acquired,
                )
            if state.fetch_offset() == offset:
                return None
        return None


def with_acknowledged(rows: Rows, acknowledged: Acknowledged) -> Rows:
    """The rows with what came of the acknowledgements that the request brought."""
    for key, error in acknowledged.items():
        row = rows.get(key) or ShareFetchedPartition(key[1])
        message = error.message if error else None
        rows[key] = row._replace(
            acknowledge_error_code=int(error), acknowledge_error_message=message
        )
    return rows
