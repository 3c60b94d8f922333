"""Produce (key 0), versions 3–13. Versions 0–2 are advertised and refused, as Kafka does.

3 record batch v2 · 5 log start offset (KIP-207) · 7 zstd (KIP-110) · 8 record errors (KIP-467)
9 flexible · 10 leader discovery tags (KIP-951) · 11 TRANSACTION_ABORTABLE, 12 partitions are
added to a transaction by writing (KIP-890) · 13 topic ids.
Requests with a transactional id are `transactions.producing`'s. Record errors name the records
without a key that a compacted topic refuses. Missing: the leader discovery tags are not sent, so
that clients ask for metadata; other refusals name no records.

The hot path: no message objects, no copies. `stage` runs for each request of one read, then the
session commits all touched partitions, then `finish` tells each producer what came of it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.base.answers import Slot
from headrace.base.network import Part
from headrace.base.promise import Promise
from headrace.broker.append import BatchRefused, check_batch, check_records, maybe_recompress
from headrace.broker.partition import Partition, both
from headrace.log.partition_log import Staged
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import ProduceFrame, encode_produce_response
from headrace.wire.kafka.produce_shape import ProduceShape
from headrace.wire.kafka.record_batch import BatchHeader

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TopicKey = str | bytes
Row = tuple[int, int, int, int, int, str | None]
"""index, error code, base offset, log append time, log start offset, error message."""

Take = Callable[[Partition, memoryview, BatchHeader], Staged | Row]
"""What becomes of a checked batch."""

ACKS = (-1, 0, 1)
_ACKS_ALL = -1
DISK_FULL = "The disk that holds the partition is full; send it again when there is room."
_ANY_VERSION = 13
"""For a batch of our own making: every codec is allowed."""


class PendingProduce(Slot):
    """A produce request whose batches are staged: answered after the commit."""

    __slots__ = ("_correlation_id", "_timeout_ms", "_topics", "_version", "acks")

    def __init__(self, frame: ProduceFrame, version: int, correlation_id: int) -> None:
        super().__init__()
        self.acks = frame.acks
        self._timeout_ms = frame.timeout_ms
        self._version = version
        self._correlation_id = correlation_id
        self._topics: list[tuple[TopicKey, list[tuple[int, Partition | None, Staged | Row]]]] = []

    def stage(self, broker: "Broker", frame: ProduceFrame, now_ms: int) -> None:
        transactional = frame.transactional_id is not None
        for topic, data in frame.topics:
            rows: list[tuple[int, Partition | None, Staged | Row]] = []
            self._topics.append((topic, rows))
            for index, records in data:
                if frame.acks not in ACKS:
                    rows.append((index, None, refusal(index, ErrorCode.INVALID_REQUIRED_ACKS)))
                    continue
                partition = broker.partitions.find(topic, index)
                if partition is None:
                    error = broker.partitions.missing(topic, index)
                    rows.append((index, None, refusal(index, error)))
                    continue
                outcome = stage_batch(
                    broker, partition, records, self._version, self.acks, transactional, now_ms
                )
                rows.append((index, partition, outcome))

    def finish(self) -> Promise[list[Part]] | None:
        """Fill the slot, or promise to where a sync or other replicas must come first."""
        waits: list[Promise[ErrorCode]] = []
        for _, rows in self._topics:
            for slot, (_, partition, outcome) in enumerate(rows):
                if partition is None:
                    continue
                if partition.log.full is not None and _is_unwritten(partition, outcome):
                    rows[slot] = (partition.index, partition, _no_room(partition))
                    continue
                if partition.waits_for_sync:
                    waits.append(partition.flushed_as_configured())
                if partition.in_sync is not None and self.acks == _ACKS_ALL:
                    waits.append(self._committed(partition, outcome, rows, slot))
        if waits:
            return _all_done(waits).map(lambda _: self._encode())
        self.parts = self._encode()
        return None

    def finish_unanswered(self) -> None:
        """acks=0: there is nothing more to do, and nobody to tell."""

    def _committed(
        self,
        partition: Partition,
        outcome: Staged | Row,
        rows: "list[tuple[int, Partition | None, Staged | Row]]",
        slot: int,
    ) -> Promise[ErrorCode]:
        """A row that is not committed in time is answered with the reason."""
        if isinstance(outcome, tuple) or outcome.error:
            return Promise.resolved(ErrorCode.NONE)

        def on_done(error: ErrorCode) -> ErrorCode:
            if error:
                index = partition.index
                rows[slot] = (index, partition, refusal(index, error))
            return error

        return partition.committed(outcome.last_offset, self._timeout_ms).map(on_done)

    def failed(self) -> bool:
        """True if any partition refused: with acks=0 only a closed connection can say so."""
        return any(row[1] != 0 for _, rows in self._rows() for row in rows)

    def _encode(self) -> list[Part]:
        return [encode_produce_response(self._version, self._correlation_id, self._rows())]

    def _rows(self) -> list[tuple[TopicKey, list[Row]]]:
        return [
            (topic, [_row(index, partition, outcome) for index, partition, outcome in rows])
            for topic, rows in self._topics
        ]


class PendingShaped(Slot):
    """The same for a request of a known shape: one partition, known before it is parsed."""

    __slots__ = ("_correlation_id", "_outcome", "_partition", "_shape", "acks")

    def __init__(
        self,
        broker: "Broker",
        shape: ProduceShape,
        partition: Partition,
        records: memoryview,
        correlation_id: int,
        now_ms: int,
    ) -> None:
        self.parts = None
        self.acks = shape.acks
        self._shape = shape
        self._partition = partition
        self._correlation_id = correlation_id
        self._outcome = stage_batch(
            broker, partition, records, shape.version, shape.acks, shape.transactional, now_ms
        )

    def finish(self) -> Promise[list[Part]] | None:
        partition, outcome = self._partition, self._outcome
        if partition.log.full is not None and _is_unwritten(partition, outcome):
            outcome = self._outcome = _no_room(partition)
        is_replicated = partition.in_sync is not None and self.acks == _ACKS_ALL
        if is_replicated and type(outcome) is Staged and not outcome.error:
            committed = partition.committed(outcome.last_offset, self._shape.timeout_ms)
            if not partition.waits_for_sync:
                return committed.map(self._on_committed)
            return both(partition.flushed_as_configured(), committed).map(self._on_committed)
        if partition.waits_for_sync:
            return partition.flushed_as_configured().map(lambda _: self._encode())
        self.parts = self._encode()
        return None

    def finish_unanswered(self) -> None:
        """acks=0: there is nothing more to do, and nobody to tell."""

    def _on_committed(self, error: ErrorCode) -> list[Part]:
        if error:
            self._outcome = refusal(self._shape.index, error)
        return self._encode()

    def failed(self) -> bool:
        return _row(self._shape.index, self._partition, self._outcome)[1] != 0

    def _encode(self) -> list[Part]:
        outcome, partition, shape = self._outcome, self._partition, self._shape
        if type(outcome) is Staged and not outcome.error and not partition.refusal:
            return [
                shape.answer(
                    self._correlation_id,
                    outcome.base_offset,
                    outcome.append_time_ms,
                    partition.log.log_start_offset,
                )
            ]
        row = _row(shape.index, partition, outcome)
        topics = [(shape.topic, [row])]
        return [encode_produce_response(shape.version, self._correlation_id, topics)]


def stage_batch(
    broker: "Broker",
    partition: Partition,
    records: memoryview | None,
    version: int,
    acks: int,
    transactional: bool,
    now_ms: int,
    take: Take | None = None,
) -> Staged | Row:
    """Check one batch and stage it, or leave it to `take` where it belongs to a transaction."""
    index = partition.index
    error = partition.refusal
    if not error and acks == _ACKS_ALL:
        error = partition.required_acks_refusal()
    if error:
        if records is not None:
            partition.note_refused(records, error, now_ms)
        return refusal(index, error)
    if partition.log.full is not None:
        if records is not None:
            partition.note_refused(records, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
        return refusal(index, ErrorCode.KAFKA_STORAGE_ERROR, DISK_FULL)
    if partition.is_internal:
        return refusal(
            index,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{partition.topic} is internal: the broker alone writes to it.",
        )
    if records is None:
        return refusal(index, ErrorCode.INVALID_RECORD)
    config = partition.config
    validate = broker.validate_records
    try:
        header = check_batch(records, config, version, transactional, now_ms)
        if validate or partition.walks_records:
            check_records(records, config, validate)
            recompressed = maybe_recompress(records, header, config)
            if recompressed is not records:
                records = recompressed
                header = check_batch(records, config, _ANY_VERSION, transactional, now_ms)
    except BatchRefused as refused:
        return refusal(index, refused.code, refused.message)
    if partition.refused is not None and header.producer_id >= 0:
        error = partition.reason_of_one_before(header, now_ms)
        if error:
            return refusal(index, error)
    if take is not None:
        return take(partition, records, header)
    if not partition.staged_bytes:
        broker.staged.append(partition)
    return partition.stage(records, header, now_ms)


def _is_unwritten(partition: Partition, outcome: Staged | Row) -> bool:
    """Asked right after the commit: it was staged, and there was no room for it."""
    return (
        isinstance(outcome, Staged)
        and not outcome.error
        and not outcome.duplicate
        and outcome.last_offset >= partition.log.log_end_offset
    )


def _no_room(partition: Partition) -> Row:
    return refusal(partition.index, ErrorCode.KAFKA_STORAGE_ERROR, DISK_FULL)


def refusal(index: int, code: ErrorCode, message: str | None = None) -> Row:
    return (index, int(code), -1, -1, -1, message)


def _row(index: int, partition: Partition | None, outcome: Staged | Row) -> Row:
    if isinstance(outcome, tuple):
        return outcome
    assert partition is not None
    if partition.refusal:
        return refusal(index, partition.refusal)
    if outcome.error:
        return (index, outcome.error, -1, -1, partition.log.log_start_offset, None)
    log_start_offset = partition.log.log_start_offset
    return (index, 0, outcome.base_offset, outcome.append_time_ms, log_start_offset, None)


def _all_done(promises: list[Promise[ErrorCode]]) -> Promise[None]:
    done: Promise[None] = Promise()
    left = len(promises)

    def on_one(_: Promise[ErrorCode]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.resolve(None)

    for promise in promises:
        promise.then(on_one)
    return done
