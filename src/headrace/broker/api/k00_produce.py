"""Produce (key 0), versions 3–13. Versions 0–2 are advertised and refused, as Kafka does.

3 record batch v2 · 5 log start offset (KIP-207) · 7 zstd (KIP-110) · 8 record errors (KIP-467)
9 flexible · 10 leader discovery tags (KIP-951; none are sent: there is one leader) · 11, 12
transactions v2 (KIP-890) · 13 topic ids.
Missing: transactions (refused with INVALID_TXN_STATE), record_errors are sent empty.

The hot path: no message objects, no copies. `stage` runs for each request of one read, then the
session commits all touched partitions, then `finish` tells each producer what came of it.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.append import BatchRefused, check_batch, check_records, maybe_recompress
from headrace.broker.partition import Partition
from headrace.log.partition_log import Staged
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import ProduceFrame, encode_produce_response

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TopicKey = str | bytes
Row = tuple[int, int, int, int, int, str | None]
"""index, error code, base offset, log append time, log start offset, error message."""


class PendingProduce:
    """A produce request whose batches are staged: answered after the commit."""

    __slots__ = ("_correlation_id", "_topics", "_version", "acks")

    def __init__(self, frame: ProduceFrame, version: int, correlation_id: int) -> None:
        self.acks = frame.acks
        self._version = version
        self._correlation_id = correlation_id
        self._topics: list[tuple[TopicKey, list[tuple[int, Partition | None, Staged | Row]]]] = []

    def stage(self, broker: "Broker", frame: ProduceFrame, now_ms: int) -> None:
        if frame.acks not in (-1, 0, 1):
            self._refuse_all(frame, ErrorCode.INVALID_REQUIRED_ACKS)
            return
        partitions = broker.partitions
        version = self._version
        transactional = frame.transactional_id is not None
        validate = broker.validate_records
        for topic, data in frame.topics:
            found = partitions.of_topic(topic)
            rows: list[tuple[int, Partition | None, Staged | Row]] = []
            self._topics.append((topic, rows))
            for index, records in data:
                partition = found.get(index) if found is not None else None
                if partition is None:
                    error = partitions.missing(topic, index)
                    rows.append((index, None, _refusal(index, error, None)))
                    continue
                if partition.error:
                    rows.append((index, None, _refusal(index, partition.error, None)))
                    continue
                if records is None:
                    rows.append((index, None, _refusal(index, ErrorCode.INVALID_RECORD, None)))
                    continue
                config = partition.config
                try:
                    header = check_batch(records, config, version, transactional, now_ms)
                    if validate or config.compacted or config.compression_type != "producer":
                        check_records(records, config, validate)
                        recompressed = maybe_recompress(records, header, config)
                        if recompressed is not records:
                            records = recompressed
                            header = check_batch(records, config, 13, transactional, now_ms)
                except BatchRefused as refused:
                    rows.append((index, None, _refusal(index, refused.code, refused.message)))
                    continue
                if not partition.staged_bytes:
                    broker.staged.append(partition)
                rows.append((index, partition, partition.stage(records, header, now_ms)))

    def finish(self) -> bytes | Promise[bytes]:
        """The encoded response, or its promise where a sync must come first."""
        waits = [
            partition
            for _, rows in self._topics
            for _, partition, _ in rows
            if partition is not None and partition.log.needs_flush_before_ack
        ]
        if not waits:
            return self._encode()
        return _all_flushed(waits).map(lambda _: self._encode())

    def failed(self) -> bool:
        """True if any partition refused: with acks=0 only a closed connection can say so."""
        return any(row[1] != 0 for _, rows in self._rows() for row in rows)

    def _encode(self) -> bytes:
        return encode_produce_response(self._version, self._correlation_id, self._rows())

    def _rows(self) -> list[tuple[TopicKey, list[Row]]]:
        return [
            (topic, [_row(index, partition, outcome) for index, partition, outcome in rows])
            for topic, rows in self._topics
        ]

    def _refuse_all(self, frame: ProduceFrame, code: ErrorCode) -> None:
        for topic, data in frame.topics:
            self._topics.append(
                (topic, [(index, None, _refusal(index, code, None)) for index, _ in data])
            )


def _refusal(index: int, code: ErrorCode, message: str | None) -> Row:
    return (index, int(code), -1, -1, -1, message)


def _row(index: int, partition: Partition | None, outcome: Staged | Row) -> Row:
    if isinstance(outcome, tuple):
        return outcome
    assert partition is not None
    if partition.error:
        return _refusal(index, partition.error, None)
    if outcome.error:
        return (index, outcome.error, -1, -1, partition.log.log_start_offset, None)
    log_start_offset = partition.log.log_start_offset
    return (index, 0, outcome.base_offset, outcome.append_time_ms, log_start_offset, None)


def _all_flushed(partitions: list[Partition]) -> Promise[None]:
    done: Promise[None] = Promise()
    left = len(partitions)

    def on_one(_: Promise[ErrorCode]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.resolve(None)

    for partition in partitions:
        partition.flushed_as_configured().then(on_one)
    return done
