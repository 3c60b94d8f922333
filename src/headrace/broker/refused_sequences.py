"""Idempotent producers' batches that were refused for a reason that passes, and those behind them.

Owns: which sequence of which producer was refused first, and what the batches behind it are told.
Must not know: requests, why something is refused.

A producer has up to five batches under way. If the first is refused because this broker does not
lead yet, and the second comes when it does, the second is out of order: Kafka says so, whereupon
librdkafka takes a new epoch and sends again whatever is under way, to other partitions too, and
what had arrived before is there twice (confluentinc/librdkafka#4953). Here the batches behind a
refused one are told the same reason until it has come, so that all of them are sent again in their
order under the old epoch. After `HELD_MS` the ordinary rules hold: it may never come.
"""

from typing import NamedTuple

from headrace.log.producers import Producers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader

HELD_MS = 10_000
PRODUCERS_MAX = 1_000
"""Beyond that the oldest is forgotten: nobody's memory is filled by refusals."""


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    error: ErrorCode
    until_ms: int


class RefusedSequences:
    """Of one partition."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._first)

    def note(self, records: memoryview, error: ErrorCode, now_ms: int) -> None:
        """`records` are as they came: nothing of them was checked."""
        if len(records) < HEADER_BYTES:
            return
        header = BatchHeader(*HEADER.unpack_from(records))
        producer_id, sequence = header.producer_id, header.base_sequence
        if header.magic != MAGIC or producer_id < 0 or sequence < 0:
            return
        known = self._first.get(producer_id)
        if (
            known is not None
            and known.epoch == header.producer_epoch
            and known.sequence <= sequence
            and now_ms < known.until_ms
        ):
            return
        self._first.pop(producer_id, None)
        if len(self._first) >= PRODUCERS_MAX:
            del self._first[next(iter(self._first))]
        self._first[producer_id] = _Refused(
            header.producer_epoch, sequence, error, now_ms + HELD_MS
        )

    def reason(self, header: BatchHeader, producers: Producers, now_ms: int) -> ErrorCode:
        """Why a checked batch is refused like one before it; NONE if it goes its way."""
        first = self._first.get(header.producer_id)
        if first is None:
            return ErrorCode.NONE
        is_behind = (
            header.producer_epoch == first.epoch
            and header.base_sequence > first.sequence
            and now_ms < first.until_ms
        )
        if is_behind and (
            header.producer_id not in producers.entries
            or producers.check(header) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        ):
            return first.error
        # It has come, here or where somebody else led, or its time is over.
        del self._first[header.producer_id]
        return ErrorCode.NONE
