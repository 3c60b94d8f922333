def receive(
    fd: int,
    slots: bytearray,
    slot_bytes: int,
    pieces: memoryview,
    piece_bytes: int,
    filled: int,
    /,
) -> int:
    """Read into slots and pieces by turns, behind the first `filled` bytes of them; how much came.

    Raises OSError, BlockingIOError if nothing is there; ValueError if there is no place.
    """
