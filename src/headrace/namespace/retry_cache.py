"""The retry cache: what was answered to the last calls that must not take effect twice.

Owns: the entries, in the order they came, and when they go. Must not know: what requests mean
(`retries`), how entries travel (`edits`).

There are up to a hundred thousand of them, most of which nobody ever asks for, so each is two
strings of bytes and no object besides: a third of the memory.

    key      client id | call id i32
    entry    time_ms i64 | size of the request i32 | request, UTF-8 | result
"""

from collections import OrderedDict
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

_SIZE_AT: Final = 8
_REQUEST_AT: Final = 12


class RetryCache:
    __slots__ = ("_entries", "_entries_max", "_expiry_ms", "_whole_ms")

    def __init__(self, entries_max: int, expiry_ms: int) -> None:
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._entries_max = entries_max
        self._expiry_ms = expiry_ms
        self._whole_ms = -1
        """Until then the oldest entry is not expired."""

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[RetryKey, RetryEntry]]:
        """The oldest first."""
        for key, data in self._entries.items():
            yield (key[:-4], int(read_i32_be(key, len(key) - 4))), _unpacked(data)

    def find(self, client_id: bytes, call_id: int) -> RetryEntry | None:
        data = self._entries.get(_key(client_id, call_id))
        return None if data is None else _unpacked(data)

    def put(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it as the latest; nothing else goes."""
        client_id, call_id = key
        packed = _key(client_id, call_id)
        entries = self._entries
        if packed in entries:
            del entries[packed]
            self._whole_ms = -1
        entries[packed] = _entry(entry.time_ms, entry.request.encode(), entry.result)

    def remember(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it, and forget those that are too old by now, or too many."""
        self.put(key, entry)
        time_ms = entry.time_ms
        if time_ms > self._whole_ms or len(self._entries) > self._entries_max:
            self._forget(time_ms)

    def _forget(self, now_ms: int) -> None:
        """The oldest first; the one of now stays."""
        entries = self._entries
        while len(entries) > self._entries_max:
            entries.popitem(last=False)
        while entries:
            oldest = next(iter(entries.values()))
            self._whole_ms = int(read_i64_be(oldest, 0)) + self._expiry_ms
            if now_ms <= self._whole_ms:
                return
            entries.popitem(last=False)


def _key(client_id: bytes, call_id: i64) -> bytes:
    out = BytesWriter()
    out.write(client_id)
    write_i32_be(out, i32(call_id))
    return out.getvalue()


def _entry(time_ms: i64, request: bytes, result: bytes) -> bytes:
    out = BytesWriter()
    write_i64_be(out, time_ms)
    write_i32_be(out, i32(len(request)))
    out.write(request)
    out.write(result)
    return out.getvalue()


def _unpacked(data: bytes) -> RetryEntry:
    end = _REQUEST_AT + int(read_i32_be(data, _SIZE_AT))
    return RetryEntry(data[_REQUEST_AT:end].decode(), int(read_i64_be(data, 0)), data[end:])
