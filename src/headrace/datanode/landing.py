"""Where the packets of a block land: their data right where it is written from.

Owns: how bytes to come are spread, and whether they were what was foreseen.
Must not know: what packets mean, files, sockets, acks (`receiver`, `replica_output`).

Nearly all packets of a block are as large as the one before and have heads that can be foreseen.
So one read is spread over two places:

    stream   head sums | data        | head sums | data        | head s…
    aside    [ slot 0 ]              [ slot 1 ]                [ slot 2…
    room               [ data 0      ]           [ data 1      ]

It is the `Spread` of such reads. The room is the buffer of a writer around the page cache: data
need not be copied there any more, and lies in one piece. What is aside stays here. A read seldom
ends where a packet does: the beginning of the next one moves to slot 0, and its data lies where the
next room begins.

Invariants: a packet counts as foreseen only if its head is, byte by byte, what it has to be; what
was not foreseen is given back as it came.
"""

from typing import Final

from headrace.base.limits import RECEIVE_BUFFER_BYTES
from headrace.wire.hadoop.packets import PacketHeads

_SLOTS_MAX: Final = 32
SEQNO_MAX: Final = 1 << 62
"""Behind it none is foreseen: numbers of packets have 63 bits."""
PACKET_DATA_BYTES_MAX: Final = 128 * 1024
"""Larger ones are copied: they would ask for much room at once."""
_NOWHERE: Final = memoryview(b"")


class Landing:
    __slots__ = (
        "_heads",
        "_slots",
        "_sums",
        "filled",
        "is_begun",
        "packet_bytes",
        "piece_bytes",
        "pieces",
        "slot_bytes",
        "slots",
    )

    def __init__(self, heads: PacketHeads, sums_bytes: int, data_bytes: int) -> None:
        self._heads = heads
        self.piece_bytes = data_bytes
        self.slot_bytes = slot_bytes = heads.head_bytes + sums_bytes
        self.packet_bytes = slot_bytes + data_bytes
        # All that was not foreseen must fit into the buffer of a usual read.
        count = min(_SLOTS_MAX, RECEIVE_BUFFER_BYTES // self.packet_bytes - 1)
        self.slots = bytearray(count * slot_bytes)
        view = memoryview(self.slots)
        starts = range(0, len(view), slot_bytes)
        self._slots = [view[at : at + slot_bytes] for at in starts]
        self._sums = [view[at + heads.head_bytes : at + slot_bytes] for at in starts]
        self.pieces = _NOWHERE
        """Where data of this read lands. Between two reads nothing of the buffer is held."""
        self.filled = 0
        """What has landed of the first packet."""
        self.is_begun = False

    # -- before a read -----------------------------------------------------------------

    def is_foreseen(self, first: memoryview, offset: int, seqno: int) -> bool:
        """Can these bytes begin the packet that is due?"""
        head = self._heads.of(offset, seqno)[: len(first)]
        return len(first) < self.packet_bytes and first[: len(head)] == head

    def begin(self, first: memoryview, room: memoryview) -> None:
        """Take the beginning of a packet, which came in another way."""
        aside = first[: self.slot_bytes]
        data = first[self.slot_bytes :]
        self._slots[0][: len(aside)] = aside
        room[: len(data)] = data
        self.filled = len(first)
        self.is_begun = True

    def land_in(self, room: memoryview) -> "Landing":
        """The next read's data goes there. `room` has place for one packet's at least."""
        self.pieces = room
        return self

    def views(self) -> list[memoryview]:
        """`Spread`, for those who can't do it natively."""
        pairs = zip(self._slots, self.data(len(self.pieces) // self.piece_bytes), strict=False)
        views = [view for pair in pairs for view in pair]
        if self.filled >= self.slot_bytes:
            del views[0]
            views[0] = views[0][self.filled - self.slot_bytes :]
        else:
            views[0] = views[0][self.filled :]
        return views

    # -- after it ----------------------------------------------------------------------

    def count_foreseen(self, count: int, offset: int, seqno: int) -> tuple[int, bool]:
        """`count` more bytes are there: how many packets are whole and as foreseen, the first being
        due with this offset and number; and whether all that landed can be."""
        self.filled = filled = self.filled + count
        whole, left = divmod(filled, self.packet_bytes)
        slots, head_of = self.slots, self._heads.of
        at = 0
        for index in range(whole):
            if not slots.startswith(head_of(offset, seqno + index), at):
                return index, False
            at += self.slot_bytes
            offset += self.piece_bytes
        head = head_of(offset, seqno + whole)[:left]
        return whole, slots.startswith(head, at)

    def packets(self, count: int) -> list[memoryview]:
        """All bytes of the first packets, in order."""
        pairs = zip(self._slots[:count], self.data(count), strict=True)
        return [view for pair in pairs for view in pair]

    def data(self, count: int) -> list[memoryview]:
        pieces, size = self.pieces, self.piece_bytes
        return [pieces[at : at + size] for at in range(0, count * size, size)]

    def sums(self, count: int) -> list[memoryview]:
        return self._sums[:count]

    def is_amid(self, taken: int) -> bool:
        """Is there some of the packet behind so many?"""
        return self.filled > taken * self.packet_bytes

    def data_beyond(self, taken: int) -> int:
        """How much data there is of the packet behind so many; it lies behind theirs."""
        return max(0, self.filled - taken * self.packet_bytes - self.slot_bytes)

    def keep(self, taken: int) -> None:
        """So many packets were taken: the room that comes next begins behind them."""
        self.filled = left = self.filled - taken * self.packet_bytes
        self.pieces = _NOWHERE
        if taken and left:
            aside = min(left, self.slot_bytes)
            self._slots[0][:aside] = self._slots[taken][:aside]

    def give_back(self, taken: int) -> bytes:
        """All that landed behind so many packets: nothing more lands here without a beginning."""
        self.is_begun = False
        left = self.filled - taken * self.packet_bytes
        end = taken + -(-left // self.packet_bytes)
        landed = self.packets(end)
        self.filled = 0
        self.pieces = _NOWHERE
        return b"".join(landed[2 * taken :])[:left]
