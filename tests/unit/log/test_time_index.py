from headrace.log import time_index
from headrace.log.time_index import TimeIndex


def index_of(*entries: tuple[int, int], base_offset: int = 100) -> TimeIndex:
    index = TimeIndex(base_offset)
    for timestamp_ms, offset in entries:
        index.maybe_append(timestamp_ms, offset)
    return index


def test_entries_are_a_big_endian_int64_and_int32() -> None:
    assert index_of((0x0102030405060708, 103)).encode() == bytes.fromhex(
        "0102030405060708 00000003"
    )


def test_decode_gives_back_what_was_encoded() -> None:
    index = index_of((1000, 103), (2000, 110), (1 << 40, 111))
    decoded = time_index.decode(100, index.encode())
    assert decoded is not None
    assert list(decoded.timestamps) == [1000, 2000, 1 << 40]
    assert list(decoded.offsets) == [3, 10, 11]


def test_only_rising_timestamps_are_noted() -> None:
    index = index_of((1000, 103), (1000, 105), (900, 106), (-1, 107), (1001, 108))
    assert list(index.timestamps) == [1000, 1001]
    assert index.last() == (1001, 108)
    assert TimeIndex(100).last() == (-1, 100)


def test_before_gives_an_offset_with_only_older_records_ahead() -> None:
    index = index_of((1000, 103), (2000, 110))
    assert [index.before(t) for t in (1, 1000, 1001, 2000, 2001)] == [100, 100, 103, 103, 110]


def test_damage_and_reserved_room() -> None:
    good = index_of((1000, 103), (2000, 110)).encode()
    padded = time_index.decode(100, good + bytes(120))
    assert padded is not None
    assert len(padded) == 2
    assert time_index.decode(100, good[:-1]) is None
    assert time_index.decode(100, good[12:] + good[:12]) is None
    assert time_index.decode(100, good[:8] + b"\xff\xff\xff\xff" + good[12:]) is None


def test_truncate_forgets_entries_from_the_offset_on() -> None:
    index = index_of((1000, 103), (2000, 110), (3000, 120))
    index.truncate_to(110)
    assert list(index.timestamps) == [1000]
