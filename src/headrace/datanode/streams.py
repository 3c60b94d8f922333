"""Byte streams to peers as a seam: sockets in `runtime.transfer_stream`, memory in tests.

A `StreamHandler` is one side of a conversation, without sockets: bytes in, parts out. All of it
happens on the loop's thread.

    bytes -> Stream keeps what is not consumed -> StreamHandler.on_data(view) -> consumed
             StreamHandler -> Stream.send(parts)  … on_drained once all has left

A handler that foresees what comes may have it put where it belongs, without a copy: see `Lander`.

Invariants: a view is valid only during `on_data`; parts leave in order; `on_closed` comes once.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.base.storage import FileRegion

Part = bytes | bytearray | memoryview | FileRegion
"""A memoryview is sent, or copied, before `send` returns."""


class Stream(Protocol):
    @property
    def peer(self) -> str:
        """`host:port` of the other side."""
        ...

    @property
    def backlogged(self) -> bool:
        """True while parts wait for the peer to take them."""
        ...

    @property
    def closed(self) -> bool: ...

    def send(self, parts: Sequence[Part]) -> None: ...

    def pause(self) -> None:
        """Read no more until `resume`: the handler can't take it now."""
        ...

    def resume(self) -> None:
        """Read again, and hand over what was left unconsumed."""
        ...

    def land(self, lander: "Lander") -> None:
        """Ask `lander` from the next read on where bytes should go. A stream need not: then they
        come by `on_data`, as ever."""
        ...

    def close(self, reason: str, *, after_sending: bool = False) -> None:
        """Close; `on_closed` follows (with `after_sending`: once the peer has taken the rest)."""
        ...


class Spread(Protocol):
    """Where the bytes of one read go: to slots and pieces by turns.

        bytes    slot 0 | piece 0  | slot 1 | piece 1  | …
        slots    [ 0    ][ 1    ]…                           one behind the other
        pieces   [ 0      ][ 1      ]…

    There is room for one of each at least.
    """

    @property
    def slots(self) -> bytearray: ...

    @property
    def slot_bytes(self) -> int: ...

    @property
    def pieces(self) -> memoryview: ...

    @property
    def piece_bytes(self) -> int: ...

    @property
    def filled(self) -> int:
        """So much of the first slot and piece is there already."""
        ...

    def views(self) -> list[memoryview]:
        """The places of the bytes to come, one after the other."""
        ...


class Lander(Protocol):
    """Says where the bytes of the next read go, as long as they are what it foresees."""

    def landing(self, first: memoryview) -> Spread | None:
        """Where the next bytes go; `first` came before them and is taken by this. None: not now,
        and nothing is taken."""
        ...

    def on_landed(self, count: int) -> bytes:
        """So many bytes are there. What comes back was not foreseen: it is shown to `on_data`, and
        so is what follows, until `land` is called again."""
        ...


class StreamHandler(Protocol):
    def on_connected(self, stream: Stream) -> None:
        """The conversation may begin. For accepted streams it comes before any data."""
        ...

    def on_data(self, view: memoryview) -> int:
        """Take bytes from the front of `view` and say how many; ProtocolError to break off.

        What is left is shown again with more behind it.
        """
        ...

    @property
    def wanted_bytes(self) -> int:
        """How many bytes `on_data` needs to see at once; room is made for so many."""
        ...

    @property
    def idle_timeout_ms(self) -> int:
        """How long the stream may stand still before it is closed."""
        ...

    def on_drained(self) -> None:
        """All that was sent has been taken by the operating system after a backlog."""
        ...

    def on_end(self) -> bool:
        """The peer will send no more (a half-close): True to go on sending to it."""
        ...

    def on_closed(self, reason: str) -> None: ...


Connect = Callable[[str, int, StreamHandler], None]
"""Connect to host and port; `on_connected` or `on_closed` of the handler follows."""

Background = Callable[[Callable[[], object]], None]
"""Run a short action off the loop whose outcome nobody waits for (say, a large file's end)."""
