"""The records sections of batches as the kernels read them: in place, or unfolded in an arena.

Owns: the table of sections and the arena that compressed batches are unfolded into, one behind
the other. Must not know: records, Arrow. What the codecs are is `wire.kafka.compression`'s; here
lz4, zstd and snappy write straight into the arena.

Invariants: a batch unfolds to at most DECOMPRESSED_BYTES_MAX; a portion (what is decoded at once)
stays below PORTION_BYTES_MAX, far below the 2 GiB that 32-bit offsets can count.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

import cramjam
import numpy as np
import numpy.typing as npt

from headrace.base.errors import ProtocolError
from headrace.base.limits import DECOMPRESSED_BYTES_MAX
from headrace.pipeline.decode.walk import RECORD_BYTES_MIN, BatchSpan, InvalidBatch
from headrace.wire.kafka.compression import Compression, decompress

Bytes = npt.NDArray[np.uint8]

SECTION_COLUMNS = 8
RAW, ARENA = 0, 1

PORTION_BYTES = 8 * 1024 * 1024
"""A portion is full at so many bytes of records, and one more batch may pass it: what was just
received or unfolded is then still in the processor's cache when it is copied."""
PORTION_BYTES_MAX = PORTION_BYTES + 2 * DECOMPRESSED_BYTES_MAX

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEAD_BYTES = 16
_CHUNK_LENGTH = Struct(">i")
_BUFFER_FULL = "failed to write whole buffer"


class _ArenaFull(Exception):
    """The batch may fit into an arena with more room."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Sections to decode at once; `rows_max` is how many records their headers claim."""

    raw: Bytes
    arena: Bytes
    sections: npt.NDArray[np.int64]
    base_offsets: list[int]
    rows_max: int


class Unfolder:
    """Cuts the spans of a buffer into portions. Its arena is used again for the next portion."""

    def __init__(self) -> None:
        self._arena: Bytes = np.empty(0, np.uint8)
        self._filled = 0

    def portions(self, raw: Bytes, spans: list[BatchSpan], rows_max: int) -> Iterator[Portion]:
        """Portions of about PORTION_BYTES or `rows_max` records, in order.

        A portion is good until the next one is asked for.
        """
        table: list[tuple[int, ...]] = []
        size = rows = self._filled = 0
        for span in spans:
            if table and (size >= PORTION_BYTES or rows + span.record_count > rows_max):
                yield self._portion(raw, table, rows)
                table, size, rows, self._filled = [], 0, 0, 0
            try:
                place = self._place(raw, span, may_grow=not table)
            except _ArenaFull:
                yield self._portion(raw, table, rows)
                table, size, rows, self._filled = [], 0, 0, 0
                place = self._place(raw, span, may_grow=True)
            buffer, begin, stop = place
            if span.record_count * RECORD_BYTES_MIN > stop - begin:
                raise InvalidBatch(
                    span.base_offset, f"{span.record_count} records in {stop - begin} bytes"
                )
            table.append(
                (
                    buffer,
                    begin,
                    stop,
                    span.record_count,
                    span.base_offset,
                    span.last_offset_delta,
                    span.base_timestamp,
                    span.is_append_time,
                )
            )
            size += stop - begin
            rows += span.record_count
        if table:
            yield self._portion(raw, table, rows)

    def _portion(self, raw: Bytes, table: list[tuple[int, ...]], rows: int) -> Portion:
        sections = np.array(table, np.int64).reshape(len(table), SECTION_COLUMNS)
        return Portion(raw, self._arena, sections, [row[4] for row in table], rows)

    def _place(self, raw: Bytes, span: BatchSpan, *, may_grow: bool) -> tuple[int, int, int]:
        if span.codec == Compression.NONE:
            return RAW, span.begin, span.stop
        data = raw.data[span.begin : span.stop]
        while True:
            try:
                length = self._unfold(data, Compression(span.codec))
                break
            except _ArenaFull:
                if not may_grow:
                    raise
                self._grow(span)
            except ProtocolError as error:
                raise InvalidBatch(span.base_offset, str(error)) from error
        begin = self._filled
        self._filled += length
        return ARENA, begin, self._filled

    def _grow(self, span: BatchSpan) -> None:
        """Only an empty arena grows, so nothing in it has to move."""
        room = len(self._arena)
        if room >= PORTION_BYTES + DECOMPRESSED_BYTES_MAX:
            raise InvalidBatch(
                span.base_offset, f"it unfolds to more than {DECOMPRESSED_BYTES_MAX} bytes"
            )
        # Memory that is never written costs nothing: the whole is reserved at once.
        self._arena = np.empty(PORTION_BYTES + DECOMPRESSED_BYTES_MAX, np.uint8)

    def _unfold(self, data: memoryview, codec: Compression) -> int:
        room = self._arena.data[self._filled : self._filled + DECOMPRESSED_BYTES_MAX]
        match codec:
            case Compression.LZ4:
                return _into(cramjam.lz4.decompress_into, data, room)
            case Compression.ZSTD:
                return _into(cramjam.zstd.decompress_into, data, room)
            case Compression.SNAPPY:
                return _snappy_into(data, room)
            case _:
                unfolded = decompress(codec, data)
                if len(unfolded) > len(room):
                    raise _ArenaFull
                room[: len(unfolded)] = unfolded
                return len(unfolded)


def _into(
    decompress_into: Callable[[memoryview, memoryview], int], data: memoryview, room: memoryview
) -> int:
    if not len(room):
        raise _ArenaFull
    try:
        return int(decompress_into(data, room))
    except cramjam.DecompressionError as error:
        if str(error) == _BUFFER_FULL:
            raise _ArenaFull from error
        raise ProtocolError(str(error)) from error


def _snappy_into(data: memoryview, room: memoryview) -> int:
    """snappy-java's chunks, or one raw block as librdkafka sends."""
    if data[:8] != _SNAPPY_MAGIC:
        return _snappy_block_into(data, room)
    position, filled = _SNAPPY_HEAD_BYTES, 0
    while position < len(data):
        try:
            (length,) = _CHUNK_LENGTH.unpack_from(data, position)
        except StructError as error:
            raise ProtocolError("snappy: truncated chunk length") from error
        position += _CHUNK_LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise ProtocolError(f"snappy: chunk of {length} bytes is longer than its data")
        filled += _snappy_block_into(data[position : position + length], room[filled:])
        position += length
    return filled


def _snappy_block_into(block: memoryview, room: memoryview) -> int:
    try:
        if cramjam.snappy.decompress_raw_len(block) > len(room):
            raise _ArenaFull
        return int(cramjam.snappy.decompress_raw_into(block, room))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"snappy: {error}") from error
