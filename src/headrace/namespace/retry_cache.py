"""The retry cache: what was answered to the last calls that must not take effect twice.

Owns: the entries, in the order they came, and when they go. Must not know: what requests mean
(`retries`), how entries travel (`edits`).

There are up to a hundred thousand of them, most of which nobody ever asks for, so each is two
strings of bytes and no object besides: a third of the memory.

    key      client id | call id i32
    entry    time_ms u64 | size of the request u32 | request, UTF-8 | result
"""

from collections import OrderedDict
from collections.abc import Iterator
from struct import Struct
from typing import Final

from headrace.namespace.edits import RetryEntry, RetryKey

_CALL_ID: Final = Struct(">i")
_HEAD: Final = Struct(">QI")


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
            yield (key[:-4], _CALL_ID.unpack_from(key, len(key) - 4)[0]), _unpacked(data)

    def find(self, client_id: bytes, call_id: int) -> RetryEntry | None:
        data = self._entries.get(client_id + _CALL_ID.pack(call_id))
        return None if data is None else _unpacked(data)

    def put(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it as the latest; nothing else goes."""
        client_id, call_id = key
        text, time_ms, result = entry
        request = text.encode()
        packed = client_id + _CALL_ID.pack(call_id)
        entries = self._entries
        if packed in entries:
            del entries[packed]
            self._whole_ms = -1
        entries[packed] = _HEAD.pack(time_ms, len(request)) + request + result

    def remember(self, key: RetryKey, entry: RetryEntry) -> None:
        """Keep it, and forget those that are too old by now, or too many."""
        self.put(key, entry)
        time_ms = entry[1]
        if time_ms > self._whole_ms or len(self._entries) > self._entries_max:
            self._forget(time_ms)

    def _forget(self, now_ms: int) -> None:
        """The oldest first; the one of now stays."""
        entries = self._entries
        while len(entries) > self._entries_max:
            entries.popitem(last=False)
        while entries:
            oldest = next(iter(entries.values()))
            time_ms: int = _HEAD.unpack_from(oldest)[0]
            self._whole_ms = time_ms + self._expiry_ms
            if now_ms <= self._whole_ms:
                return
            entries.popitem(last=False)


def _unpacked(data: bytes) -> RetryEntry:
    time_ms, size = _HEAD.unpack_from(data)
    end = _HEAD.size + size
    return RetryEntry(data[_HEAD.size : end].decode(), time_ms, data[end:])
