"""The sparse time index of one segment: `<base>.timeindex`.

    entry (12 bytes, big endian)
    +--------------------------------+------------------------+
    | largest timestamp so far int64 | relative offset  int32 |
    +--------------------------------+------------------------+

An entry (t, o) says: no record after offset `o` and before the next entry's offset is later
than the next entry's timestamp, and the batch that ends at `o` is the one that brought t.
Timestamps rise strictly, offsets never fall, as Kafka's TimeIndex.

Owns: the columns in memory, their file format, the search in them.
Must not know: batches.
"""

import sys
from array import array
from bisect import bisect_left
from operator import ge, gt
from struct import Struct

ENTRY_BYTES = 12
_ENTRY = Struct(">qi")


class TimeIndex:
    __slots__ = ("base_offset", "offsets", "saved_count", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.offsets = array("i")
        """Relative to `base_offset`."""
        self.saved_count = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Nothing happens unless the timestamp rises."""
        timestamps = self.timestamps
        if timestamp_ms >= 0 and (not timestamps or timestamp_ms > timestamps[-1]):
            timestamps.append(timestamp_ms)
            self.offsets.append(offset - self.base_offset)

    def last(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) if the index is empty."""
        if not self.timestamps:
            return -1, self.base_offset
        return self.timestamps[-1], self.offsets[-1] + self.base_offset

    def before(self, timestamp_ms: int) -> int:
        """An offset such that every earlier record is older than `timestamp_ms`."""
        slot = bisect_left(self.timestamps, timestamp_ms) - 1
        return self.offsets[slot] + self.base_offset if slot >= 0 else self.base_offset

    def truncate(self, count: int) -> None:
        del self.timestamps[count:]
        del self.offsets[count:]
        self.saved_count = min(self.saved_count, count)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        count = len(self.offsets)
        while count and self.offsets[count - 1] + self.base_offset >= offset:
            count -= 1
        self.truncate(count)

    def encode(self, start: int = 0) -> bytes:
        """The entries from slot `start` on, as the file holds them."""
        return b"".join(map(_ENTRY.pack, self.timestamps[start:], self.offsets[start:]))


def decode(base_offset: int, content: bytes) -> TimeIndex | None:
    """The index in `content`, None if it can't be one.

    Zeros at the end are the room that a broker had reserved, not entries.
    """
    if len(content) % ENTRY_BYTES:
        return None
    index = TimeIndex(base_offset)
    words = array("i")
    words.frombytes(content)
    index.offsets = words[2::3]
    del words[2::3]
    index.timestamps.frombytes(words.tobytes())
    if sys.byteorder == "little":
        index.offsets.byteswap()
        index.timestamps.byteswap()
    count = len(index.timestamps)
    while count and index.timestamps[count - 1] == 0 and index.offsets[count - 1] == 0:
        count -= 1
    index.truncate(count)
    index.saved_count = count
    return index if _is_sane(index) else None


def _is_sane(index: TimeIndex) -> bool:
    if not index.timestamps:
        return True
    if index.timestamps[0] < 0 or index.offsets[0] < 0:
        return False
    return not (
        any(map(ge, index.timestamps, index.timestamps[1:]))
        or any(map(gt, index.offsets, index.offsets[1:]))
    )
