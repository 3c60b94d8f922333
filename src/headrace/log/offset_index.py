"""The sparse offset index of one segment: `<base>.index`.

    entry (8 bytes, big endian)
    +------------------------+------------------------+
    | relative offset  int32 | file position    int32 |
    +------------------------+------------------------+

An entry names the *last* offset of a batch and the position where that batch starts, as
Kafka's OffsetIndex. Both columns rise strictly (the position from the second entry on).

Owns: the columns in memory, their file format, the search in them.
Must not know: batches. That an entry tells the truth is checked by who follows it.
"""

import sys
from array import array
from bisect import bisect_right
from operator import ge

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = (1 << 31) - 1


class OffsetIndex:
    __slots__ = ("base_offset", "offsets", "positions", "saved_count")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets = array("i")
        """Relative to `base_offset`."""
        self.positions = array("i")
        self.saved_count = 0
        """How many of the entries the file holds; what the file has behind them is void."""

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, last_offset: int, position: int) -> None:
        self.offsets.append(last_offset - self.base_offset)
        self.positions.append(position)

    def floor(self, offset: int) -> int:
        """The slot of the last entry at or below `offset`, -1 if none is."""
        return bisect_right(self.offsets, offset - self.base_offset) - 1

    def floor_position(self, position: int) -> int:
        """The last indexed position at or below `position`, -1 if none is."""
        slot = bisect_right(self.positions, position) - 1
        return self.positions[slot] if slot >= 0 else -1

    def truncate(self, count: int) -> None:
        del self.offsets[count:]
        del self.positions[count:]
        self.saved_count = min(self.saved_count, count)

    def truncate_to(self, offset: int, position: int) -> None:
        """Keep the entries below both `offset` and `position`."""
        count = len(self.offsets)
        while count and (
            self.offsets[count - 1] + self.base_offset >= offset
            or self.positions[count - 1] >= position
        ):
            count -= 1
        self.truncate(count)

    def encode(self, start: int = 0) -> bytes:
        """The entries from slot `start` on, as the file holds them."""
        count = len(self.offsets) - start
        columns = array("i", bytes(count * ENTRY_BYTES))
        columns[0::2] = self.offsets[start:]
        columns[1::2] = self.positions[start:]
        if sys.byteorder == "little":
            columns.byteswap()
        return columns.tobytes()


def decode(base_offset: int, content: bytes, log_size: int) -> OffsetIndex | None:
    """The index in `content`, None if it can't be that of a log of `log_size` bytes.

    Zeros at the end are the room that a broker had reserved, not entries.
    """
    if len(content) % ENTRY_BYTES:
        return None
    columns = array("i")
    columns.frombytes(content)
    if sys.byteorder == "little":
        columns.byteswap()
    index = OffsetIndex(base_offset)
    index.offsets = columns[0::2]
    index.positions = columns[1::2]
    count = len(index.offsets)
    # An offset of zero is possible in the first entry alone, a position of zero too.
    while count and index.offsets[count - 1] == 0 and index.positions[count - 1] == 0:
        count -= 1
    index.truncate(count)
    index.saved_count = count
    return index if _is_sane(index, log_size) else None


def _is_sane(index: OffsetIndex, log_size: int) -> bool:
    if not index.offsets:
        return True
    if index.offsets[0] < 0 or index.positions[0] < 0 or index.positions[-1] >= log_size:
        return False
    return not (
        any(map(ge, index.offsets, index.offsets[1:]))
        or any(map(ge, index.positions, index.positions[1:]))
    )
