"""Where the packets of a block land: their data right where it is written from.

Owns: how bytes to come are spread, and whether they were what was foreseen.
Must not know: what packets mean, files, sockets, acks (`receiver`, `replica_output`).

Nearly all packets of a block are as large as the one before and have heads that can be foreseen.
So one read is spread over two places:

    stream   head sums | data        | head sums | data        | head s…
    aside    [ slot 0 ]              [ slot 1 ]                [ slot 2…
    room               [ data 0      ]           [ data 1      ]

The room is the buffer of a writer around the page cache: data need not be copied there any more,
and lies in one piece. What is aside stays here. A read seldom ends where a packet does: the
beginning of the next one moves to slot 0, and its data lies where the next room begins.

Invariants: a packet counts as foreseen only if its head is, byte by byte, what it has to be; what
was not foreseen is given back as it came.
"""

from collections.abc import Sequence
from typing import Final

from headrace.base.limits import RECEIVE_BUFFER_BYTES
from headrace.wire.hadoop.packets import PacketHeads

_SLOTS_MAX: Final = 32
SEQNO_MAX: Final = 1 << 62
"""Behind it none is foreseen: numbers of packets have 63 bits."""
PACKET_DATA_BYTES_MAX: Final = 128 * 1024
"""Larger ones are copied: they would ask for much room at once."""


class Landing:
    __slots__ = (
        "_aside",
        "_aside_bytes",
        "_filled",
        "_heads",
        "_room",
        "_slots",
        "_sums",
        "data_bytes",
        "is_begun",
        "packet_bytes",
    )

    def __init__(self, heads: PacketHeads, sums_bytes: int, data_bytes: int) -> None:
        self._heads = heads
        self.data_bytes = data_bytes
        self._aside_bytes = aside_bytes = heads.head_bytes + sums_bytes
        self.packet_bytes = aside_bytes + data_bytes
        # All that was not foreseen must fit into the buffer of a usual read.
        count = min(_SLOTS_MAX, RECEIVE_BUFFER_BYTES // self.packet_bytes - 1)
        self._aside = bytearray(count * aside_bytes)
        view = memoryview(self._aside)
        starts = range(0, len(view), aside_bytes)
        self._slots = [view[at : at + aside_bytes] for at in starts]
        self._sums = [view[at + heads.head_bytes : at + aside_bytes] for at in starts]
        self._room: list[memoryview] = []
        """Where data of this read lands. Between two reads nothing of the buffer is held."""
        self._filled = 0
        """What has landed of the first packet."""
        self.is_begun = False

    # -- before a read -----------------------------------------------------------------

    def is_foreseen(self, first: memoryview, offset: int, seqno: int) -> bool:
        """Can these bytes begin the packet that is due?"""
        head = self._heads.of(offset, seqno)[: len(first)]
        return len(first) < self.packet_bytes and first[: len(head)] == head

    def begin(self, first: memoryview, room: memoryview) -> None:
        """Take the beginning of a packet, which came in another way."""
        aside = first[: self._aside_bytes]
        data = first[self._aside_bytes :]
        self._slots[0][: len(aside)] = aside
        room[: len(data)] = data
        self._filled = len(first)
        self.is_begun = True

    def views(self, room: memoryview) -> Sequence[memoryview]:
        """Where the next bytes go. `room` has place for one packet's data at least."""
        data_bytes, slots = self.data_bytes, self._slots
        count = min(len(room) // data_bytes, len(slots))
        self._room = datas = [
            room[at : at + data_bytes] for at in range(0, count * data_bytes, data_bytes)
        ]
        views = [view for pair in zip(slots, datas, strict=False) for view in pair]
        if self._filled >= self._aside_bytes:
            views[:2] = [datas[0][self._filled - self._aside_bytes :]]
        elif self._filled:
            views[0] = slots[0][self._filled :]
        return views

    # -- after it ----------------------------------------------------------------------

    def count_foreseen(self, count: int, offset: int, seqno: int) -> tuple[int, bool]:
        """`count` more bytes are there: how many packets are whole and as foreseen, the first being
        due with this offset and number; and whether all that landed can be."""
        self._filled = filled = self._filled + count
        whole, left = divmod(filled, self.packet_bytes)
        aside, head_of = self._aside, self._heads.of
        at = 0
        for index in range(whole):
            if not aside.startswith(head_of(offset, seqno + index), at):
                return index, False
            at += self._aside_bytes
            offset += self.data_bytes
        head = head_of(offset, seqno + whole)[:left]
        return whole, aside.startswith(head, at)

    def packets(self, count: int) -> Sequence[memoryview]:
        """All bytes of the first packets, in order."""
        pairs = zip(self._slots[:count], self._room, strict=False)
        return [view for pair in pairs for view in pair]

    def data(self, count: int) -> list[memoryview]:
        return self._room[:count]

    def sums(self, count: int) -> list[memoryview]:
        return self._sums[:count]

    def is_amid(self, taken: int) -> bool:
        """Is there some of the packet behind so many?"""
        return self._filled > taken * self.packet_bytes

    def data_beyond(self, taken: int) -> int:
        """How much data there is of the packet behind so many; it lies behind theirs."""
        return max(0, self._filled - taken * self.packet_bytes - self._aside_bytes)

    def keep(self, taken: int) -> None:
        """So many packets were taken: the room that `views` is given next begins behind them."""
        self._filled = left = self._filled - taken * self.packet_bytes
        self._room = []
        if taken and left:
            aside = min(left, self._aside_bytes)
            self._slots[0][:aside] = self._slots[taken][:aside]

    def give_back(self, taken: int) -> bytes:
        """All that landed behind so many packets: nothing more lands here without a beginning."""
        self.is_begun = False
        left = self._filled - taken * self.packet_bytes
        end = taken + -(-left // self.packet_bytes)
        self._filled = 0
        pairs = zip(self._slots[taken:end], self._room[taken:end], strict=True)
        self._room = []
        return b"".join(view for pair in pairs for view in pair)[:left]
