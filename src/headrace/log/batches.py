"""Walking over the batches of a segment file, header by header.

Owns: reading headers in bounded pieces, and the header arithmetic that must hold for a
batch to be one. Must not know: indexes, records, what a bad batch means for the partition.

Invariant: whatever the bytes are, a walk moves forward and ends.
"""

from collections.abc import Iterator
from struct import Struct

from headrace.base.errors import CorruptionError
from headrace.base.storage import File
from headrace.wire.kafka.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)

LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
"""`batch_length` counts from behind itself: the header alone is this long."""

WALK_BYTES = 64 * 1024

_SHORT = Struct(">qi4xb6xi")
"""What a search looks at: base offset, batch length, magic, last offset delta."""


def fault_of(header: BatchHeader, room_bytes: int) -> str | None:
    """Why this can't be a batch at a place with `room_bytes` left; None if it can."""
    if header.magic != MAGIC:
        return f"magic {header.magic}, not 2"
    if header.batch_length < LENGTH_MIN:
        return f"batch length {header.batch_length} is less than a header's"
    if header.size_bytes > room_bytes:
        return f"batch of {header.size_bytes} bytes where {room_bytes} are left"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return "negative offset"
    return None


def walk(
    file: File, position: int, end: int, piece_bytes: int = WALK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position` to `end`, which must be boundaries."""
    piece = b""
    piece_start = piece_end = position
    while position < end:
        if position + HEADER_BYTES > piece_end:
            piece = file.read(position, min(piece_bytes, end - position))
            piece_start, piece_end = position, position + len(piece)
            if len(piece) < HEADER_BYTES:
                raise CorruptionError(file.path, position, "no room for a batch header")
        header = read_header(piece, position - piece_start)
        fault = fault_of(header, end - position)
        if fault is not None:
            raise CorruptionError(file.path, position, fault)
        yield position, header
        position += header.size_bytes


def skip_to_offset(piece: bytes, offset: int) -> tuple[int, int]:
    """Of the batches at the start of `piece`, the first that ends at or behind `offset`.

    Its place and base offset; or the place where the piece or the batches in it end, and -1.
    """
    place, end = 0, len(piece) - HEADER_BYTES
    unpack = _SHORT.unpack_from
    while place <= end:
        base_offset, batch_length, magic, last_offset_delta = unpack(piece, place)
        if magic != MAGIC or batch_length < LENGTH_MIN or last_offset_delta < 0:
            break
        if base_offset + last_offset_delta >= offset:
            return place, base_offset
        place += batch_length + LENGTH_OVERHEAD_BYTES
    return place, -1


def header_at(file: File, position: int, end: int) -> BatchHeader:
    for _, header in walk(file, position, end, HEADER_BYTES):
        return header
    raise CorruptionError(file.path, position, "no batch where one was expected")
