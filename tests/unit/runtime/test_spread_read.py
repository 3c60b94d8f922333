"""A read that is spread over slots and pieces natively; by views: `test_transfer_stream`."""

import socket
from collections.abc import Iterator

import pytest

from headrace.base.compiled import is_compiled

if is_compiled():
    from headrace.runtime import spread_read

pytestmark = pytest.mark.skipif(
    not is_compiled(), reason="the module in C is not there interpreted"
)

SLOT, PIECE = 3, 5
PAIRS = 4
WHOLE = bytes(range(PAIRS * (SLOT + PIECE)))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("filled", range(SLOT + PIECE))
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 24])
def test_bytes_go_to_slots_and_pieces_by_turns(
    filled: int, count: int, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    slots, pieces = bytearray(b"." * PAIRS * SLOT), bytearray(b"." * PAIRS * PIECE)
    theirs.sendall(WHOLE[filled : filled + count])
    view = memoryview(pieces)
    assert spread_read.receive(ours.fileno(), slots, SLOT, view, PIECE, filled) == count
    joined = b"".join(
        slots[index * SLOT : (index + 1) * SLOT] + pieces[index * PIECE : (index + 1) * PIECE]
        for index in range(PAIRS)
    )
    there = WHOLE[filled : filled + count]
    assert joined == b"." * filled + there + b"." * (len(WHOLE) - filled - count)


def test_no_more_than_there_is_place_for(ends: tuple[socket.socket, socket.socket]) -> None:
    """The fewer of slots and pieces count, and only whole ones."""
    ours, theirs = ends
    theirs.sendall(bytes(1000))
    for slots, pieces, places in ((4, 2, 2), (2, 4, 2), (1, 1, 1)):
        room = memoryview(bytearray(pieces * PIECE + PIECE - 1))
        slot_room = bytearray(slots * SLOT + SLOT - 1)
        got = spread_read.receive(ours.fileno(), slot_room, SLOT, room, PIECE, 0)
        assert got == places * (SLOT + PIECE)


def test_nothing_and_the_end_are_told_apart(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    place = bytearray(SLOT), SLOT, memoryview(bytearray(PIECE)), PIECE, 0
    with pytest.raises(BlockingIOError):
        spread_read.receive(ours.fileno(), *place)
    theirs.close()
    assert spread_read.receive(ours.fileno(), *place) == 0


def test_no_place_is_not_an_end(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"something")
    slots, pieces = bytearray(SLOT), memoryview(bytearray(PIECE))
    for words in (
        (slots, SLOT, pieces[:-1], PIECE, 0),
        (slots[:-1], SLOT, pieces, PIECE, 0),
        (slots, SLOT, pieces, PIECE, SLOT + PIECE),
        (slots, SLOT, pieces, PIECE, -1),
        (slots, 0, pieces, PIECE, 0),
        (slots, SLOT, pieces, -5, 0),
    ):
        with pytest.raises(ValueError, match="no place"):
            spread_read.receive(ours.fileno(), *words)
    with pytest.raises(BufferError):
        spread_read.receive(ours.fileno(), slots, SLOT, memoryview(bytes(PIECE)), PIECE, 0)
    assert ours.recv(100) == b"something"
