"""The retry cache: what was answered to the last calls that must not take effect twice.

Owns: the entries, in the order they came, and when they go. Must not know: what requests mean
(`retries`), how entries travel (`edits`).

There are up to a hundred thousand of them, most of which nobody ever asks for, so each is one
string of bytes in a ring, found by a table of places in it: half the memory of a dictionary's.

    entry    size of the key i32 | size of the request i32 | time_ms i64 | key | request | result
    key      client id | call id i32
    table    place in the ring + 1, or 0, where the key's hash says or next to it (linear probing)

Invariants: the table tells of every entry once and of nothing else; between an entry and where its
hash says no place of the table is 0.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i32_be,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from headrace.namespace.edits import RetryEntry, RetryKey

_TIME_AT: Final = 8
_KEY_AT: Final = 16
_GONE: Final = b""
"""In the ring, where an entry was that came again later."""


class RetryCache:
    __slots__ = (
        "_capacity",
        "_count",
        "_entries_max",
        "_expiry_ms",
        "_first",
        "_mask",
        "_ring",
        "_size",
        "_table",
        "_whole_ms",
    )

    def __init__(self, entries_max: int, expiry_ms: int) -> None:
        assert entries_max > 0
        self._entries_max = entries_max
        self._capacity = entries_max + entries_max // 4 + 1
        """Of the ring, with places for what came again later."""
        self._ring: list[bytes] = []
        """As long as it was ever needed."""
        self._first = 0
        """The place of the oldest."""
        self._size = 0
        """Places in use, from the oldest on."""
        self._count = 0
        self._mask = (1 << (2 * entries_max).bit_length()) - 1
        self._table = _empty_table(self._mask)
        self._expiry_ms = expiry_ms
        self._whole_ms = -1
        """Until then the oldest entry is not expired."""

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[RetryKey, RetryEntry]]:
        """The oldest first."""
        for index in range(self._size):
            data = self._ring[(self._first + index) % self._capacity]
            if data:
                key = _key_of(data)
                yield (key[:-4], int(read_i32_be(key, len(key) - 4))), _unpacked(data)

    def find(self, client_id: bytes, call_id: int) -> RetryEntry | None:
        at = self._seek(_key(client_id, call_id))
        place = self._table[at]
        return _unpacked(self._ring[place - 1]) if place else None

    def put(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it as the latest; the oldest goes if there is no room."""
        client_id, call_id = key
        packed = _key(client_id, call_id)
        at = self._seek(packed)
        place = self._table[at]
        if place or self._count == self._entries_max or self._size == self._capacity:
            self._make_room(at, place)
            at = self._seek(packed)
        place = (self._first + self._size) % self._capacity
        data = _entry(packed, entry)
        if place == len(self._ring):
            self._ring.append(data)
        else:
            self._ring[place] = data
        self._size += 1
        self._count += 1
        self._table[at] = place + 1

    def remember(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it, and forget those that are too old by now."""
        self.put(key, entry)
        if entry.time_ms > self._whole_ms:
            self._forget(entry.time_ms)

    def _forget(self, now_ms: int) -> None:
        """The oldest first; the one of now stays."""
        while self._count:
            oldest = self._ring[self._first]
            if oldest:
                self._whole_ms = int(read_i64_be(oldest, _TIME_AT)) + self._expiry_ms
                if now_ms <= self._whole_ms:
                    return
            self._drop_first()

    def _make_room(self, at: int, place: int) -> None:
        """For an entry that the table tells of at `at`, if it was there already."""
        self._whole_ms = -1
        if place:
            self._ring[place - 1] = _GONE
            self._clear(at)
        while self._count == self._entries_max:
            self._drop_first()
        if self._size == self._capacity:
            self._close_ranks()

    def _drop_first(self) -> None:
        first = self._first
        data = self._ring[first]
        if data:
            self._clear(self._seek(_key_of(data)))
            self._ring[first] = _GONE
        self._first = (first + 1) % self._capacity
        self._size -= 1

    def _close_ranks(self) -> None:
        """What came again has left places behind: a quarter of the ring, so this is rare."""
        ring, first, capacity = self._ring, self._first, self._capacity
        places = [(first + index) % capacity for index in range(self._size)]
        self._ring = [ring[place] for place in places if ring[place]]
        self._first, self._size = 0, len(self._ring)
        self._table = _empty_table(self._mask)
        for place, data in enumerate(self._ring):
            self._table[self._seek(_key_of(data))] = place + 1

    # -- the table ---------------------------------------------------------------------------

    def _seek(self, key: bytes) -> int:
        """Where the table tells of this key, or would."""
        table, ring, mask = self._table, self._ring, self._mask
        at = hash(key) & mask
        while True:
            place = table[at]
            if not place:
                return at
            data = ring[place - 1]
            if data.startswith(key, _KEY_AT) and read_i32_be(data, 0) == len(key):
                return at
            at = (at + 1) & mask

    def _clear(self, at: int) -> None:
        """Take one out, and have those behind it move up that would not be found any more."""
        table, mask = self._table, self._mask
        self._count -= 1
        behind = at
        while True:
            behind = (behind + 1) & mask
            place = table[behind]
            if not place:
                break
            home = hash(_key_of(self._ring[place - 1])) & mask
            if (behind - home) & mask >= (behind - at) & mask:
                table[at] = place
                at = behind
        table[at] = 0


def _empty_table(mask: int) -> "array[int]":
    return array("i", bytes(4 * (mask + 1)))


def _key(client_id: bytes, call_id: i64) -> bytes:
    out = BytesWriter()
    out.write(client_id)
    write_i32_be(out, i32(call_id))
    return out.getvalue()


def _entry(key: bytes, entry: RetryEntry) -> bytes:
    request = entry.request.encode()
    out = BytesWriter()
    write_i32_be(out, i32(len(key)))
    write_i32_be(out, i32(len(request)))
    write_i64_be(out, entry.time_ms)
    out.write(key)
    out.write(request)
    out.write(entry.result)
    return out.getvalue()


def _key_of(data: bytes) -> bytes:
    return data[_KEY_AT : _KEY_AT + int(read_i32_be(data, 0))]


def _unpacked(data: bytes) -> RetryEntry:
    begin = _KEY_AT + int(read_i32_be(data, 0))
    end = begin + int(read_i32_be(data, 4))
    return RetryEntry(data[begin:end].decode(), int(read_i64_be(data, _TIME_AT)), data[end:])
