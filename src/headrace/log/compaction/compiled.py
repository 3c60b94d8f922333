"""Keys and records by numba: whole runs of plain batches without a step back into Python.

Owns: the table of digests in flat arrays, SipHash-2-4 with 128 bits of output and a secret key,
CRC-32C by eight bytes a step, the walk over batches and records in machine code.
Must not know: transactions, producers, files. Only a cleaning's own process imports this: numba
takes a hundred megabytes that a broker does not have to pay for.

A batch is plain if it is uncompressed, outside of transactions and without a delete horizon, and
if nothing but dropping records happens to it. Any other is left to the caller, and so is what is
damaged.

Invariant: what comes out is byte for byte what `engine.PythonEngine` gives.
"""

# mypy: disable-error-code="no-untyped-call, no-untyped-def, misc, untyped-decorator, no-any-return"

from typing import Any

import numpy as np
from numba import njit, uint64

from headrace.log.compaction.engine import Buffer, Kept, Run
from headrace.wire.kafka.records import InvalidRecord

SLOT_BYTES = 24
"""Two words of digest, and an offset plus one: zeros are a free slot, and cost no memory."""
_SLOTS_MIN = 1 << 10
_BAD = -1
_NO_DELTA = -(1 << 63)

_COUNT, _CAPACITY, _LATEST, _FULL, _READ, _KEPT, _TOMBSTONES, _DELTA_MAX, _INVALID = range(9)
_STATE_SIZE = 9

_PLAIN_MASK = 0x01 | 0x02 | 0x04 | 0x10 | 0x20 | 0x40
_HEADER_BYTES = 61


def _crc_tables() -> np.ndarray[Any, Any]:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for byte in range(256):
        value = int(tables[0, byte])
        for step in range(1, 8):
            value = int(tables[0, value & 255]) ^ (value >> 8)
            tables[step, byte] = value
    return tables


_TABLES = _crc_tables()


@njit(cache=True, inline="always")
def _rotate(value, bits):
    return (value << uint64(bits)) | (value >> uint64(64 - bits))


@njit(cache=True)
def _rounds(v0, v1, v2, v3, count):
    for _ in range(count):
        v0 += v1
        v1 = _rotate(v1, 13)
        v1 ^= v0
        v0 = _rotate(v0, 32)
        v2 += v3
        v3 = _rotate(v3, 16)
        v3 ^= v2
        v0 += v3
        v3 = _rotate(v3, 21)
        v3 ^= v0
        v2 += v1
        v1 = _rotate(v1, 17)
        v1 ^= v2
        v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True)
def siphash(data, start, length, k0, k1):
    """SipHash-2-4-128 of `length` bytes at `start`: its two words."""
    v0 = uint64(0x736F6D6570736575) ^ k0
    v1 = uint64(0x646F72616E646F6D) ^ k1 ^ uint64(0xEE)
    v2 = uint64(0x6C7967656E657261) ^ k0
    v3 = uint64(0x7465646279746573) ^ k1
    whole = length - length % 8
    for at in range(start, start + whole, 8):
        word = uint64(0)
        for i in range(8):
            word |= uint64(data[at + i]) << uint64(8 * i)
        v3 ^= word
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 2)
        v0 ^= word
    word = uint64(length & 255) << uint64(56)
    for i in range(length % 8):
        word |= uint64(data[start + whole + i]) << uint64(8 * i)
    v3 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 2)
    v0 ^= word
    v2 ^= uint64(0xEE)
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 4)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= uint64(0xDD)
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 4)
    return first, v0 ^ v1 ^ v2 ^ v3


@njit(cache=True)
def crc32c(data, start, end, tables):
    crc = np.uint32(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        low = crc ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        crc = (
            tables[7, low & np.uint32(255)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(255)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(255)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = tables[0, (crc ^ np.uint32(data[at])) & np.uint32(255)] ^ (crc >> np.uint32(8))
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@njit(cache=True)
def _varint(data, at, end):
    """The zig-zag varint at `at` and the place behind it, which is _BAD if there is none."""
    value = uint64(0)
    shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= uint64(byte & 127) << uint64(shift)
        if byte < 128:
            return np.int64(value >> uint64(1)) ^ -np.int64(value & uint64(1)), at
        shift += 7
    return np.int64(0), _BAD


@njit(cache=True)
def _record(data, at, end):
    """End (or _BAD), timestamp delta, offset delta, key's place and length, value's length."""
    length, at = _varint(data, at, end)
    bad = (_BAD, np.int64(0), np.int64(0), 0, np.int64(0), np.int64(0))
    if at == _BAD or length < 1 or at + length > end:
        return bad
    stop = at + length
    timestamp_delta, at = _varint(data, at + 1, stop)
    if at == _BAD:
        return bad
    offset_delta, at = _varint(data, at, stop)
    if at == _BAD:
        return bad
    key_length, at = _varint(data, at, stop)
    if at == _BAD or key_length > stop - at:
        return bad
    key_at = at
    if key_length > 0:
        at += key_length
    value_length, at = _varint(data, at, stop)
    if at == _BAD or value_length >= stop - at:
        return bad
    return stop, timestamp_delta, offset_delta, key_at, key_length, value_length


@njit(cache=True)
def _slot(first, second, table):
    """Where the digest is, or the free slot where it belongs."""
    slots = uint64(table.shape[0])
    slot = np.int64(((first >> uint64(32)) * slots) >> uint64(32))
    while table[slot, 2] != 0 and (table[slot, 0] != first or table[slot, 1] != second):
        slot += np.int64(1)
        if slot == table.shape[0]:
            slot = np.int64(0)
    return slot


@njit(cache=True)
def _note(data, at, end, count, base_offset, start_offset, table, k0, k1, state):
    """False if a record is damaged. Sets _FULL where there is no room for a key."""
    for _ in range(count):
        stop, _, offset_delta, key_at, key_length, _ = _record(data, at, end)
        if stop == _BAD:
            return False
        at = stop
        offset = base_offset + offset_delta
        state[_READ] += 1
        if key_length < 0 or offset < start_offset:
            continue
        first, second = siphash(data, key_at, key_length, k0, k1)
        slot = _slot(first, second, table)
        if table[slot, 2] == 0:
            if state[_COUNT] >= state[_CAPACITY]:
                state[_FULL] = 1
                return True
            state[_COUNT] += 1
            table[slot, 0] = first
            table[slot, 1] = second
        table[slot, 2] = uint64(offset + 1)
        state[_LATEST] = offset
    return True


@njit(cache=True)
def _int64(data, at):
    value = uint64(0)
    for i in range(8):
        value = (value << uint64(8)) | uint64(data[at + i])
    return np.int64(value)


@njit(cache=True)
def _int32(data, at):
    value = (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )
    return value - (np.int64(1) << 32) if value >= np.int64(1) << 31 else value


@njit(cache=True)
def _put(data, at, value, size):
    for i in range(size):
        data[at + i] = np.uint8((value >> (8 * (size - 1 - i))) & 255)


@njit(cache=True)
def _is_plain(data, place, end):
    if place + _HEADER_BYTES > end:
        return False
    size = _int32(data, place + 8) + 12
    if size < _HEADER_BYTES or place + size > end or data[place + 16] != 2:
        return False
    return data[place + 22] & _PLAIN_MASK == 0 and _int32(data, place + 57) > 0


@njit(cache=True)
def _note_run(data, place, start_offset, table, k0, k1, state):
    end = data.shape[0]
    while place < end and _is_plain(data, place, end):
        size = _int32(data, place + 8) + 12
        base_offset = _int64(data, place)
        last_offset = base_offset + _int32(data, place + 23)
        if last_offset >= start_offset:
            is_good = _note(
                data,
                place + _HEADER_BYTES,
                place + size,
                _int32(data, place + 57),
                base_offset,
                start_offset,
                table,
                k0,
                k1,
                state,
            )
            if not is_good or state[_FULL]:
                break
            state[_LATEST] = max(state[_LATEST], last_offset)
        place += size
    return place


@njit(cache=True)
def _keep(data, at, end, count, base_offset, tombstones, out, out_at, table, k0, k1, state):
    """Copies what stays to `out`; the place behind it, _BAD for a damaged record."""
    state[_KEPT] = 0
    state[_TOMBSTONES] = 0
    state[_INVALID] = 0
    state[_DELTA_MAX] = _NO_DELTA
    latest = state[_LATEST]
    for _ in range(count):
        stop, delta, offset_delta, key_at, key_length, value_length = _record(data, at, end)
        if stop == _BAD:
            return _BAD
        offset = base_offset + offset_delta
        stays = True
        if offset <= latest:
            if key_length < 0:
                stays = False
                state[_INVALID] += 1
            else:
                first, second = siphash(data, key_at, key_length, k0, k1)
                slot = _slot(first, second, table)
                stays = offset >= np.int64(table[slot, 2]) - 1 and (value_length >= 0 or tombstones)
        if stays:
            state[_KEPT] += 1
            if value_length < 0:
                state[_TOMBSTONES] = 1
            state[_DELTA_MAX] = max(state[_DELTA_MAX], delta)
            out[out_at : out_at + stop - at] = data[at:stop]
            out_at += stop - at
        at = stop
    return out_at if at == end else _BAD


@njit(cache=True)
def _keep_run(data, place, end_offset, out, marks, table, k0, k1, state, totals, tables):
    """Where it stopped, the bytes written and the number of marks."""
    end = data.shape[0]
    out_at = 0
    mark_count = 0
    while place < end and mark_count < marks.shape[0] and _is_plain(data, place, end):
        size = _int32(data, place + 8) + 12
        count = _int32(data, place + 57)
        base_offset = _int64(data, place)
        last_offset = base_offset + _int32(data, place + 23)
        max_timestamp = _int64(data, place + 35)
        body = out_at + _HEADER_BYTES
        stop = _keep(
            data,
            place + _HEADER_BYTES,
            place + size,
            count,
            base_offset,
            True,
            out,
            body,
            table,
            k0,
            k1,
            state,
        )
        kept = state[_KEPT]
        if stop == _BAD or state[_TOMBSTONES] or state[_INVALID]:
            break
        if kept == 0:
            # Whether it stays as an empty one is not for here to say.
            if _int64(data, place + 43) >= 0 or last_offset + 1 == end_offset:
                break
            totals[0] += count
            place += size
            continue
        out[out_at:body] = data[place : place + _HEADER_BYTES]
        if kept < count:
            stored = np.uint32(_int32(data, place + 17) & 0xFFFFFFFF)
            if crc32c(data, place + 21, place + size, tables) != stored:
                break
            if not data[place + 22] & 8:
                max_timestamp = _int64(data, place + 27) + state[_DELTA_MAX]
                _put(out, out_at + 35, max_timestamp, 8)
            _put(out, out_at + 8, stop - out_at - 12, 4)
            _put(out, out_at + 57, kept, 4)
            _put(out, out_at + 17, np.int64(crc32c(out, out_at + 21, stop, tables)), 4)
        marks[mark_count, 0] = stop - out_at
        marks[mark_count, 1] = last_offset
        marks[mark_count, 2] = max_timestamp
        mark_count += 1
        out_at = stop
        totals[0] += count
        totals[1] += kept
        place += size
    return place, out_at, mark_count


class CompiledEngine:
    def __init__(self, buffer_bytes: int, load_factor: float, secret: bytes) -> None:
        slots = max(_SLOTS_MIN, min(buffer_bytes // SLOT_BYTES, (1 << 32) - 1))
        self._table = np.zeros((slots, 3), np.uint64)
        self._k0 = np.uint64(int.from_bytes(secret[:8], "little"))
        self._k1 = np.uint64(int.from_bytes(secret[8:16], "little"))
        self._state = np.zeros(_STATE_SIZE, np.int64)
        self._state[_CAPACITY] = max(1, min(int(slots * load_factor), slots - 1))
        self._state[_LATEST] = -1
        self._marks = np.zeros((1 << 16, 3), np.int64)
        self._totals = np.zeros(2, np.int64)
        self._out = np.zeros(1 << 16, np.uint8)

    @property
    def latest_offset(self) -> int:
        return int(self._state[_LATEST])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self._state[_LATEST] = offset

    @property
    def is_full(self) -> bool:
        return bool(self._state[_FULL])

    def note(self, payload: Buffer, count: int, base_offset: int, start_offset: int) -> int:
        data = np.frombuffer(payload, np.uint8)
        self._state[_READ] = 0
        if not _note(
            data,
            0,
            len(data),
            count,
            base_offset,
            start_offset,
            self._table,
            self._k0,
            self._k1,
            self._state,
        ):
            raise InvalidRecord("a record is not what its batch says")
        return int(self._state[_READ])

    def note_run(self, piece: bytes, place: int, start_offset: int) -> tuple[int, int]:
        self._state[_READ] = 0
        place = _note_run(
            np.frombuffer(piece, np.uint8),
            place,
            start_offset,
            self._table,
            self._k0,
            self._k1,
            self._state,
        )
        return int(place), int(self._state[_READ])

    def keep(self, payload: Buffer, count: int, base_offset: int, tombstones: bool) -> Kept:
        data = np.frombuffer(payload, np.uint8)
        out = self._room(len(data))
        end = _keep(
            data,
            0,
            len(data),
            count,
            base_offset,
            tombstones,
            out,
            0,
            self._table,
            self._k0,
            self._k1,
            self._state,
        )
        if end == _BAD:
            raise InvalidRecord("a record is not what its batch says")
        state = self._state
        kept = int(state[_KEPT])
        return Kept(
            kept,
            None if kept == count else out[:end].tobytes(),
            int(state[_DELTA_MAX]),
            bool(state[_TOMBSTONES]),
            int(state[_INVALID]),
        )

    def keep_run(self, piece: bytes, place: int, end_offset: int) -> Run:
        out = self._room(len(piece) + _HEADER_BYTES)
        self._totals[:] = 0
        place, size, mark_count = _keep_run(
            np.frombuffer(piece, np.uint8),
            place,
            end_offset,
            out,
            self._marks,
            self._table,
            self._k0,
            self._k1,
            self._state,
            self._totals,
            _TABLES,
        )
        marks = self._marks[:mark_count].tolist()
        read_count, kept_count = self._totals.tolist()
        return Run(int(place), out[:size].tobytes(), marks, read_count, kept_count)

    def _room(self, size: int) -> np.ndarray[Any, Any]:
        if len(self._out) < size:
            self._out = np.zeros(size, np.uint8)
        return self._out
