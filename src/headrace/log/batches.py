"""Walking over the batches of a segment file, header by header.

Owns: reading headers in bounded pieces, and the header arithmetic that must hold for a
batch to be one. Must not know: indexes, records, what a bad batch means for the partition.

Invariant: whatever the bytes are, a walk moves forward and ends.
"""

from collections.abc import Iterator

from headrace.base.errors import CorruptionError
from headrace.base.storage import File
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader, read_header

MAGIC = 2
LENGTH_MIN = HEADER_BYTES - 12
"""`batch_length` counts from behind itself: the header alone is this long."""

WALK_BYTES = 64 * 1024


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


def header_at(file: File, position: int, end: int) -> BatchHeader:
    for _, header in walk(file, position, end, HEADER_BYTES):
        return header
    raise CorruptionError(file.path, position, "no batch where one was expected")
