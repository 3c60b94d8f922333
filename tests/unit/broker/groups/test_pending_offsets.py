"""Offsets of open transactions in a group's table: whatever the order, the log's last word wins."""

from headrace.broker.groups.offsets import CommittedOffset, OffsetTable

KEY = ("t", 0)
PRODUCER, OTHER = 7, 8


def offset(value: int) -> CommittedOffset:
    return CommittedOffset(value, -1, "", 0)


def value(table: OffsetTable) -> int | None:
    found = table.get(*KEY)
    return None if found is None else found.offset


def test_pending_counts_from_the_marker_on() -> None:
    table = OffsetTable()
    table.add_pending(PRODUCER, {KEY: offset(5)})
    assert (value(table), table.has_pending(*KEY), table.is_empty) == (None, True, False)
    assert not table.has_pending("t", 1)
    assert table.end_transaction(PRODUCER, is_commit=True)
    assert (value(table), table.has_pending(*KEY)) == (5, False)
    assert not table.end_transaction(PRODUCER, is_commit=True), "nothing is left to end"


def test_an_abort_leaves_what_was() -> None:
    table = OffsetTable()
    table.put(*KEY, offset(3))
    table.add_pending(PRODUCER, {KEY: offset(5)})
    table.end_transaction(PRODUCER, is_commit=False)
    assert value(table) == 3


def test_a_refused_append_is_taken_back() -> None:
    table = OffsetTable()
    kept = table.add_pending(PRODUCER, {("t", 1): offset(1)})
    refused = table.add_pending(PRODUCER, {KEY: offset(5)})
    table.drop_pending(PRODUCER, refused)
    assert not table.has_pending(*KEY)
    assert table.has_pending("t", 1)
    table.drop_pending(PRODUCER, kept)
    assert not table.has_any_pending
    table.drop_pending(PRODUCER, kept)


def test_a_later_commit_stands_whenever_it_is_confirmed() -> None:
    for is_marker_first in (False, True):
        table = OffsetTable()
        table.add_pending(PRODUCER, {KEY: offset(5)})
        ticket = table.begin([KEY])
        if is_marker_first:
            table.end_transaction(PRODUCER, is_commit=True)
        table.end(ticket, {KEY: offset(9)}, is_kept=True)
        if not is_marker_first:
            assert table.has_pending(*KEY), "unstable until the marker"
            table.end_transaction(PRODUCER, is_commit=True)
        assert value(table) == 9


def test_an_earlier_commit_gives_way_whenever_it_is_confirmed() -> None:
    for is_marker_first in (False, True):
        table = OffsetTable()
        ticket = table.begin([KEY])
        table.add_pending(PRODUCER, {KEY: offset(5)})
        if is_marker_first:
            table.end_transaction(PRODUCER, is_commit=True)
        table.end(ticket, {KEY: offset(2)}, is_kept=True)
        if not is_marker_first:
            table.end_transaction(PRODUCER, is_commit=True)
        assert value(table) == 5


def test_two_transactions_over_one_offset() -> None:
    table = OffsetTable()
    table.add_pending(PRODUCER, {KEY: offset(5)})
    table.add_pending(OTHER, {KEY: offset(6)})
    table.end_transaction(OTHER, is_commit=True)
    table.end_transaction(PRODUCER, is_commit=True)
    assert value(table) == 6, "the later record, not the later marker"


def test_a_tombstone_takes_what_is_pending() -> None:
    table = OffsetTable()
    table.put(*KEY, offset(3))
    table.add_pending(PRODUCER, {KEY: offset(5)})
    assert table.keys() == [KEY]
    table.put(*KEY, None)
    assert not table.has_any_pending
    table.end_transaction(PRODUCER, is_commit=True)
    assert (value(table), table.is_empty) == (None, True)
