"""Keys and records, one by one in Python: what `compiled` does where numba is installed.

Owns: the map from a key's digest to its last offset, the walk over the records of one batch.
Must not know: transactions, producers, files.

Digests have 128 bits and a secret of this cleaning, so that nobody can write two keys that meet:
a collision would drop a record that nothing supersedes.

Invariants: the map never holds more than its memory allows, and says so when it is full; records
that stay keep their bytes.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.records import InvalidRecord
from headrace.wire.kafka.varint import decode_signed, encode_signed

Buffer = bytes | bytearray | memoryview

DIGEST_BYTES = 16
ENTRY_BYTES = 200
"""Of one key in a dict: digest, offset, and their share of the table."""
_VARLONG_BYTES_MAX = 10


class Kept(NamedTuple):
    """What stays of a batch's records."""

    record_count: int
    payload: Buffer | None
    """None if all of them stay."""
    timestamp_delta_max: int
    has_tombstones: bool
    invalid_count: int


class Run(NamedTuple):
    """What was done of a piece of a file by itself, batch after batch."""

    place: int
    """Where the first batch starts that needs a closer look."""
    content: Buffer
    marks: Sequence[Sequence[int]]
    """Of each batch in `content`: size, last offset, max timestamp."""
    read_count: int
    kept_count: int


class Engine(Protocol):
    latest_offset: int
    """Up to it keys have been noted."""

    @property
    def is_full(self) -> bool:
        """No room for another key."""
        ...

    def note(self, payload: Buffer, count: int, base_offset: int, start_offset: int) -> int:
        """Note the keys of one batch from `start_offset` on; how many records were looked at."""
        ...

    def note_run(self, piece: bytes, place: int, start_offset: int) -> tuple[int, int]:
        """Note plain batches of a piece; where it stopped, and how many records there were."""
        ...

    def keep(self, payload: Buffer, count: int, base_offset: int, tombstones: bool) -> Kept:
        """What of a batch's records nothing supersedes, tombstones only if they may stay."""
        ...

    def keep_run(self, piece: bytes, place: int, end_offset: int) -> Run:
        """The same for plain batches of a piece, up to the first that needs a closer look."""
        ...


class PythonEngine:
    def __init__(self, buffer_bytes: int, load_factor: float, secret: bytes) -> None:
        self._capacity = max(1, int(buffer_bytes * load_factor) // ENTRY_BYTES)
        self._digest = _digest_with(secret)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        self.is_full = False

    def note(self, payload: Buffer, count: int, base_offset: int, start_offset: int) -> int:
        data = bytes(payload)
        offsets, digest, capacity = self._offsets, self._digest, self._capacity
        position = 0
        for index in range(count):
            offset, position, key, _, _, _ = _next_record(data, position)
            offset += base_offset
            if key is None or offset < start_offset:
                continue
            name = digest(key)
            if len(offsets) >= capacity and name not in offsets:
                self.is_full = True
                return index
            offsets[name] = offset
            self.latest_offset = offset
        return count

    def note_run(self, piece: bytes, place: int, start_offset: int) -> tuple[int, int]:  # noqa: ARG002
        return place, 0

    def keep(self, payload: Buffer, count: int, base_offset: int, tombstones: bool) -> Kept:
        data = bytes(payload)
        offsets, digest, latest = self._offsets, self._digest, self.latest_offset
        parts: list[bytes] = []
        position = kept_start = 0
        kept = invalid = 0
        delta_max = -(1 << 63)
        has_tombstones = False
        for _ in range(count):
            start = position
            offset, position, key, has_value, delta, _ = _next_record(data, start)
            offset += base_offset
            if offset > latest:
                stays = True
            elif key is None:
                stays = False
                invalid += 1
            else:
                stays = offset >= offsets.get(digest(key), -1) and (has_value or tombstones)
            if stays:
                kept += 1
                delta_max = max(delta_max, delta)
                has_tombstones |= not has_value
                continue
            if kept_start < start:
                parts.append(data[kept_start:start])
            kept_start = position
        if position != len(data):
            raise InvalidRecord(f"{len(data) - position} bytes behind the last record")
        if kept == count:
            return Kept(kept, None, delta_max, has_tombstones, invalid)
        parts.append(data[kept_start:])
        return Kept(kept, b"".join(parts), delta_max, has_tombstones, invalid)

    def keep_run(self, piece: bytes, place: int, end_offset: int) -> Run:  # noqa: ARG002
        return Run(place, b"", [], 0, 0)


def shift_timestamps(payload: Buffer, count: int, shift_ms: int) -> bytes:
    """The same records for a batch whose base timestamp is `shift_ms` less."""
    data = bytes(payload)
    parts: list[bytes] = []
    position = 0
    for _ in range(count):
        _, end, _, _, delta, delta_end = _next_record(data, position)
        _, body = decode_signed(data, position)
        encoded = data[body : body + 1] + encode_signed(delta + shift_ms)
        parts += (encode_signed(len(encoded) + end - delta_end), encoded, data[delta_end:end])
        position = end
    return b"".join(parts)


def _digest_with(secret: bytes) -> Callable[[bytes], bytes]:
    keyed = blake2b(key=secret, digest_size=DIGEST_BYTES)

    def digest(key: bytes) -> bytes:
        each = keyed.copy()
        each.update(key)
        return each.digest()

    return digest


def _next_record(data: bytes, position: int) -> tuple[int, int, bytes | None, bool, int, int]:
    """Offset delta, end, key, whether there is a value, timestamp delta and where that ends."""
    try:
        length, position = decode_signed(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise InvalidRecord(f"record of {length} bytes in {len(data) - position}")
        timestamp_delta, position = decode_signed(data, position + 1, _VARLONG_BYTES_MAX)
        delta_end = position
        offset_delta, position = decode_signed(data, position)
        key_length, position = decode_signed(data, position)
        key = None
        if key_length >= 0:
            key = data[position : position + key_length]
            position += key_length
        value_length, position = decode_signed(data, position)
        if position + max(value_length, 0) >= end:
            raise InvalidRecord("record's length is not that of its fields")
    except IndexError as error:
        raise InvalidRecord("record is cut short") from error
    except ProtocolError as error:
        raise InvalidRecord(str(error)) from error
    return offset_delta, end, key, value_length >= 0, timestamp_delta, delta_end
