from headrace.log import offset_index
from headrace.log.offset_index import OffsetIndex


def index_of(*entries: tuple[int, int], base_offset: int = 100) -> OffsetIndex:
    index = OffsetIndex(base_offset)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_entries_are_two_big_endian_int32() -> None:
    index = index_of((105, 300), (100 + 0x01020304, 0x05060708))
    assert index.encode() == bytes.fromhex("00000005 0000012c 01020304 05060708")
    assert index.encode(1) == bytes.fromhex("01020304 05060708")


def test_decode_gives_back_what_was_encoded() -> None:
    index = index_of((105, 300), (110, 700), (150, 5000))
    decoded = offset_index.decode(100, index.encode(), log_size=6000)
    assert decoded is not None
    assert list(decoded.offsets) == [5, 10, 50]
    assert list(decoded.positions) == [300, 700, 5000]
    assert decoded.saved_count == 3


def test_floor_finds_the_last_entry_at_or_below() -> None:
    index = index_of((105, 300), (110, 700))
    assert [index.floor(offset) for offset in (100, 104, 105, 109, 110, 999)] == [
        -1,
        -1,
        0,
        0,
        1,
        1,
    ]
    assert [index.floor_position(p) for p in (0, 299, 300, 699, 700, 9999)] == [
        -1,
        -1,
        300,
        300,
        700,
        700,
    ]


def test_room_reserved_by_a_broker_is_no_entry() -> None:
    content = index_of((105, 300)).encode() + bytes(80)
    decoded = offset_index.decode(100, content, log_size=6000)
    assert decoded is not None
    assert len(decoded) == 1


def test_an_index_that_can_not_be_is_refused() -> None:
    good = index_of((105, 300), (110, 700)).encode()
    assert offset_index.decode(100, good[:-1], log_size=6000) is None
    assert offset_index.decode(100, good, log_size=700) is None, "points behind the log"
    assert offset_index.decode(100, good[8:] + good[:8], log_size=6000) is None, "falls"
    assert offset_index.decode(100, good + good[8:], log_size=6000) is None, "stands still"
    assert offset_index.decode(100, b"\xff" * 8, log_size=6000) is None, "negative"


def test_truncate_keeps_what_lies_before_both_bounds() -> None:
    index = index_of((105, 300), (110, 700), (120, 900))
    index.saved_count = 3
    index.truncate_to(111, 900)
    assert list(index.offsets) == [5, 10]
    index.truncate_to(200, 700)
    assert list(index.offsets) == [5]
    assert index.saved_count == 1
