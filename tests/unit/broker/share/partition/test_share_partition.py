"""Every transition of a share-partition, one at a time."""

import pytest

from headrace.broker.share.partition.share_partition import Change, SharePartition, Write
from headrace.broker.share.partition.states import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    AcquireMode,
    Acquisition,
    Limits,
    LogBatch,
)
from headrace.broker.share.persister import StateBatch
from headrace.wire.kafka.errors import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
LOCK_MS = 1000


def partition(start: int = 0, **limits: int) -> SharePartition:
    return SharePartition(start, Limits(**limits))


def log(*lengths: int, start: int = 0) -> list[LogBatch]:
    """Batches of these lengths, one behind the other."""
    batches = []
    for length in lengths:
        batches.append(LogBatch(start, start + length - 1))
        start += length
    return batches


def acquire(
    share: SharePartition,
    batches: list[LogBatch],
    member: str = "m",
    *,
    now_ms: int = 0,
    max_records: int = 1000,
    batch_size: int = 1000,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
) -> list[tuple[int, int, int]]:
    offset = share.fetch_offset()
    if offset is None:
        return []
    asked = Acquisition(member, max_records, now_ms + LOCK_MS, batch_size, mode)
    found = [batch for batch in batches if batch.last_offset >= offset]
    return [(each[0], each[1], each[2]) for each in share.acquire(asked, offset, found)]


def acknowledge(
    share: SharePartition,
    first: int,
    last: int,
    *types: int,
    member: str = "m",
    now_ms: int = 0,
) -> Change | ErrorCode:
    return share.acknowledge(member, [Acknowledgement(first, last, types)], now_ms + LOCK_MS)


def keep(share: SharePartition) -> Write:
    write = share.next_write()
    assert write is not None
    share.on_written()
    return write


def done(share: SharePartition, first: int, last: int, *types: int, member: str = "m") -> Write:
    """Acknowledged and kept."""
    assert isinstance(acknowledge(share, first, last, *types, member=member), Change)
    return keep(share)


def states(share: SharePartition) -> list[str]:
    return [repr(run) for run in share.runs()]


# -- acquiring ---------------------------------------------------------------------------------


def test_whole_batches_are_handed_out_up_to_the_records_wanted() -> None:
    share = partition()
    assert acquire(share, log(5, 5, 5, 5), max_records=7) == [(0, 9, 1)]
    assert share.next_offset == 10
    assert share.held_by("m") == 10
    assert share.fetch_offset() == 10


def test_the_record_limit_cuts_a_batch() -> None:
    share = partition()
    batches = log(5, 5)
    limited = AcquireMode.RECORD_LIMIT
    assert acquire(share, batches, "a", max_records=7, mode=limited) == [(0, 6, 1)]
    assert acquire(share, batches, "b", max_records=7, mode=limited) == [(7, 9, 1)]


def test_what_is_acquired_is_told_in_pieces_of_about_the_batch_size() -> None:
    share = partition()
    assert acquire(share, log(4, 4, 4, 4, 4), batch_size=7) == [
        (0, 7, 1),
        (8, 15, 1),
        (16, 19, 1),
    ]


def test_nobody_gets_what_another_holds() -> None:
    share = partition()
    batches = log(5, 5)
    assert acquire(share, batches, "a", max_records=5) == [(0, 4, 1)]
    assert acquire(share, batches, "b", max_records=5) == [(5, 9, 1)]
    assert acquire(share, batches, "c") == []


def test_a_fetch_begins_in_the_middle_of_a_batch_where_the_group_begins() -> None:
    share = partition(3)
    assert acquire(share, log(5, 5)) == [(3, 9, 1)]


def test_no_more_are_in_flight_than_allowed_but_for_the_rest_of_a_batch() -> None:
    share = partition(in_flight_max=7)
    batches = log(5, 5, 5)
    assert acquire(share, batches) == [(0, 9, 1)]
    assert share.fetch_offset() is None
    done(share, 0, 4, ACCEPT)
    assert share.in_flight_count == 5
    assert acquire(share, batches) == [(10, 14, 1)]


def test_the_record_limit_obeys_the_number_in_flight_exactly() -> None:
    share = partition(in_flight_max=7)
    batches = log(5, 5)
    assert acquire(share, batches, mode=AcquireMode.RECORD_LIMIT) == [(0, 6, 1)]
    assert share.fetch_offset() is None


def test_a_full_window_still_gives_out_what_came_back() -> None:
    share = partition(in_flight_max=10)
    batches = log(5, 5, 5)
    acquire(share, batches)
    done(share, 2, 3, RELEASE)
    assert share.fetch_offset() == 2
    assert acquire(share, batches, "b") == [(2, 3, 2)]


def test_records_that_came_back_and_new_ones_go_out_together() -> None:
    share = partition()
    batches = log(5, 5)
    acquire(share, batches, "a", max_records=5)
    done(share, 1, 3, RELEASE, member="a")
    assert acquire(share, batches, "b") == [(1, 3, 2), (5, 9, 1)]


def test_a_log_with_holes_archives_them() -> None:
    share = partition()
    batches = [LogBatch(3, 5), LogBatch(9, 10)]
    assert acquire(share, batches) == [(3, 5, 1), (9, 10, 1)]
    assert share.start_offset == 3
    assert states(share) == ["3-5 ACQUIRED 1 m", "6-8 ARCHIVED 0", "9-10 ACQUIRED 1 m"]
    write = done(share, 3, 5, ACCEPT)
    assert write.start_offset == 9
    assert share.start_offset == 9


def test_control_batches_and_aborted_ones_are_for_nobody() -> None:
    share = partition()
    batches = [LogBatch(0, 2), LogBatch(3, 4, is_deliverable=False), LogBatch(5, 6)]
    assert acquire(share, batches) == [(0, 2, 1), (5, 6, 1)]
    done(share, 0, 2, ACCEPT)
    assert share.start_offset == 5


def test_a_batch_for_nobody_alone_moves_the_start() -> None:
    share = partition()
    assert acquire(share, [LogBatch(0, 4, is_deliverable=False)]) == []
    assert (share.start_offset, share.next_offset) == (5, 5)
    assert share.fetch_offset() == 5


def test_what_compaction_took_since_its_delivery_is_archived() -> None:
    share = partition()
    acquire(share, log(5, 5))
    done(share, 0, 9, RELEASE)
    assert acquire(share, [LogBatch(7, 9)], "b") == [(7, 9, 2)]
    assert share.start_offset == 7


# -- acknowledging -----------------------------------------------------------------------------


def test_accepted_records_leave_the_window_once_they_are_kept() -> None:
    share = partition()
    acquire(share, log(5, 5))
    assert isinstance(acknowledge(share, 0, 4, ACCEPT), Change)
    assert share.start_offset == 0
    write = share.next_write()
    assert write is not None
    assert (write.start_offset, write.state_batches) == (5, ())
    share.on_written()
    assert share.start_offset == 5
    assert states(share) == ["5-9 ACQUIRED 1 m"]


def test_accepted_records_behind_others_are_kept_by_name() -> None:
    share = partition()
    acquire(share, log(10))
    write = done(share, 4, 6, ACCEPT)
    assert write.start_offset == 0
    assert write.delivery_complete_count == 3
    assert write.state_batches == (StateBatch(4, 6, ACKNOWLEDGED, 1),)
    assert share.start_offset == 0


def test_each_record_may_have_its_own_type() -> None:
    share = partition()
    acquire(share, log(6))
    write = done(share, 0, 5, RELEASE, ACCEPT, ACCEPT, REJECT, GAP, RELEASE)
    assert write.state_batches == (
        StateBatch(0, 0, AVAILABLE, 1),
        StateBatch(1, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 3, ARCHIVED, 1),
        StateBatch(4, 4, ARCHIVED, 1),
        StateBatch(5, 5, AVAILABLE, 1),
    )
    assert acquire(share, log(6), "b") == [(0, 0, 2), (5, 5, 2)]


def test_released_records_are_handed_out_again_and_counted() -> None:
    share = partition()
    acquire(share, log(3))
    for count in (2, 3):
        done(share, 0, 2, RELEASE)
        assert acquire(share, log(3))[0][2] == count


def test_rejected_records_never_come_again() -> None:
    share = partition()
    acquire(share, log(3))
    assert done(share, 0, 2, REJECT).start_offset == 3
    assert acquire(share, log(3)) == []


def test_after_too_many_deliveries_a_record_is_archived() -> None:
    share = partition(delivery_count_limit=2)
    batches = log(1)
    acquire(share, batches)
    done(share, 0, 0, RELEASE)
    assert acquire(share, batches) == [(0, 0, 2)]
    change = acknowledge(share, 0, 0, RELEASE)
    assert isinstance(change, Change)
    assert change.tally.archived == 1
    assert keep(share).start_offset == 1
    assert acquire(share, batches) == []


def test_a_suspect_goes_out_with_ever_fewer_others_and_at_last_alone() -> None:
    share = partition(delivery_count_limit=5)
    batches = log(16)
    for count in (1, 2, 3):
        assert acquire(share, batches) == [(0, 15, count)]
        done(share, 0, 15, RELEASE)
    assert acquire(share, batches) == [(0, 7, 4)]
    assert acquire(share, batches, "b") == [(8, 11, 4)]
    done(share, 0, 7, RELEASE)
    assert acquire(share, batches) == [(0, 0, 5)]
    assert acquire(share, batches) == [(1, 1, 5)]


def test_a_record_on_its_last_delivery_ends_a_fetch_that_has_others() -> None:
    share = partition(delivery_count_limit=3)
    batches = log(2, 2)
    acquire(share, batches, "a", max_records=2)
    done(share, 0, 1, RELEASE, member="a")
    acquire(share, batches, "a", max_records=2)
    acquire(share, batches, "b", max_records=2)
    done(share, 1, 1, RELEASE, member="a")
    done(share, 2, 3, RELEASE, member="b")
    assert [run.delivery_count for run in share.runs()] == [2, 2, 1]
    assert acquire(share, batches) == [(1, 1, 3)]
    assert acquire(share, batches) == [(2, 3, 2)]


def test_a_renewed_lock_lasts_longer() -> None:
    share = partition()
    acquire(share, log(4))
    change = acknowledge(share, 1, 2, RENEW, now_ms=900)
    assert isinstance(change, Change)
    assert not change.runs
    assert change.tally.renewed == 2
    assert share.next_write() is None
    assert share.expire(LOCK_MS).released == 2
    assert states(share) == ["0-0 AVAILABLE 1", "1-2 ACQUIRED 1 m", "3-3 AVAILABLE 1"]
    assert share.lock_until_ms() == 900 + LOCK_MS


@pytest.mark.parametrize(
    ("first", "last", "member", "error"),
    [
        (0, 4, "other", ErrorCode.INVALID_RECORD_STATE),
        (3, 6, "m", ErrorCode.INVALID_RECORD_STATE),
        (8, 10, "m", ErrorCode.INVALID_REQUEST),
        (90, 99, "m", ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_what_a_member_holds_may_be_acknowledged(
    first: int, last: int, member: str, error: ErrorCode
) -> None:
    share = partition()
    acquire(share, log(10))
    done(share, 5, 6, RELEASE)
    before = states(share)
    assert acknowledge(share, first, last, ACCEPT, member=member) == error
    assert states(share) == before
    assert share.next_write() is None


def test_all_batches_of_an_acknowledgement_count_or_none() -> None:
    share = partition()
    acquire(share, log(5), "a")
    acquire(share, log(5, 5), "b")
    both = [Acknowledgement(0, 4, (ACCEPT,)), Acknowledgement(5, 9, (ACCEPT,))]
    assert share.acknowledge("a", both, 0) == ErrorCode.INVALID_RECORD_STATE
    assert share.next_write() is None
    assert share.held_by("a") == 5


def test_what_is_done_with_may_be_acknowledged_again_in_vain() -> None:
    share = partition()
    acquire(share, log(5))
    done(share, 0, 2, ACCEPT)
    change = acknowledge(share, 0, 2, RELEASE)
    assert isinstance(change, Change)
    assert not change.runs
    assert share.start_offset == 3


def test_while_it_is_written_nothing_else_moves_a_record() -> None:
    share = partition()
    acquire(share, log(2))
    acknowledge(share, 0, 1, RELEASE)
    assert share.next_write() is not None
    assert share.fetch_offset() == 2
    assert acknowledge(share, 0, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert share.expire(10 * LOCK_MS).released == 0
    assert share.release_member("m").released == 0
    share.on_written()
    assert share.fetch_offset() == 0


def test_there_is_one_write_at_a_time_and_the_next_one_has_the_rest() -> None:
    share = partition()
    acquire(share, log(9))
    acknowledge(share, 0, 2, ACCEPT)
    first = share.next_write()
    acknowledge(share, 3, 5, ACCEPT)
    acknowledge(share, 8, 8, ACCEPT)
    assert first is not None
    assert first.start_offset == 3
    assert share.next_write() is None
    share.on_written()
    second = share.next_write()
    assert second is not None
    assert len(second.changes) == 2
    assert second.start_offset == 6
    assert second.state_batches == (StateBatch(8, 8, ACKNOWLEDGED, 1),)


def test_a_failed_write_leaves_records_with_their_holder() -> None:
    share = partition()
    acquire(share, log(4))
    acknowledge(share, 0, 3, ACCEPT, RELEASE, REJECT, GAP)
    assert share.next_write() is not None
    share.on_write_failed()
    assert states(share) == ["0-3 ACQUIRED 1 m"]
    assert share.next_write() is None
    assert done(share, 0, 3, ACCEPT).start_offset == 4


# -- coming back by itself ---------------------------------------------------------------------


def test_a_lock_ends_and_the_record_may_be_had_again() -> None:
    share = partition()
    acquire(share, log(3), now_ms=5)
    assert share.lock_until_ms() == 5 + LOCK_MS
    assert share.expire(4 + LOCK_MS).released == 0
    assert share.expire(5 + LOCK_MS).released == 3
    assert share.lock_until_ms() is None
    assert keep(share).state_batches == (StateBatch(0, 2, AVAILABLE, 1),)
    assert acquire(share, log(3), "b") == [(0, 2, 2)]
    assert acknowledge(share, 0, 2, ACCEPT) == ErrorCode.INVALID_RECORD_STATE


def test_a_lock_that_ends_for_the_last_time_archives() -> None:
    share = partition(delivery_count_limit=2)
    for _ in range(2):
        acquire(share, log(1))
        tally = share.expire(LOCK_MS)
    assert (tally.released, tally.archived) == (1, 1)
    assert share.start_offset == 1


def test_a_member_that_leaves_gives_all_back() -> None:
    share = partition()
    acquire(share, log(3), "a")
    acquire(share, log(3, 3), "b")
    assert share.release_member("a").released == 3
    assert acquire(share, log(3, 3), "c") == [(0, 2, 2)]
    assert share.held_by("b") == 3


def test_a_record_of_which_members_die_is_given_up() -> None:
    share = partition(delivery_count_limit=2)
    for _ in range(2):
        acquire(share, log(1))
        tally = share.release_member("m")
    assert (tally.released, tally.archived) == (1, 1)
    assert share.start_offset == 1


def test_what_came_back_and_went_out_again_is_kept_as_it_was_between() -> None:
    share = partition()
    acquire(share, log(2))
    share.expire(LOCK_MS)
    acquire(share, log(2))
    assert keep(share).state_batches == (StateBatch(0, 1, AVAILABLE, 1),)


def test_what_moved_by_itself_is_tried_again_after_a_failed_write() -> None:
    share = partition()
    acquire(share, log(2))
    share.expire(LOCK_MS)
    first = share.next_write()
    share.on_write_failed()
    assert share.has_unkept
    assert share.next_write() == first


# -- the log's start ---------------------------------------------------------------------------


def test_retention_moves_the_start_past_all_in_flight() -> None:
    share = partition()
    acquire(share, log(5))
    assert share.on_log_start(100)
    assert not share.on_log_start(100)
    assert (share.start_offset, share.next_offset) == (100, 100)
    assert keep(share).start_offset == 100
    assert acquire(share, log(5, start=100)) == [(100, 104, 1)]


def test_retention_cuts_a_run_and_acknowledgements_of_the_past_are_ignored() -> None:
    share = partition()
    acquire(share, log(10))
    assert share.on_log_start(4)
    assert states(share) == ["4-9 ACQUIRED 1 m"]
    assert done(share, 0, 5, ACCEPT).start_offset == 6


def test_retention_takes_what_is_being_written() -> None:
    share = partition()
    acquire(share, log(5))
    acknowledge(share, 0, 2, ACCEPT)
    assert share.next_write() is not None
    share.on_log_start(2)
    share.on_written()
    assert (share.start_offset, states(share)) == (3, ["3-4 ACQUIRED 1 m"])


# -- after a restart ---------------------------------------------------------------------------


def test_it_is_rebuilt_with_holes_as_never_delivered() -> None:
    share = SharePartition.rebuilt(
        10,
        [
            StateBatch(20, 24, ACKNOWLEDGED, 1),
            StateBatch(12, 14, AVAILABLE, 2),
            StateBatch(0, 10, ARCHIVED, 1),
        ],
        Limits(),
    )
    assert share.start_offset == 11
    assert states(share) == [
        "11-11 AVAILABLE 0",
        "12-14 AVAILABLE 2",
        "15-19 AVAILABLE 0",
        "20-24 ACKNOWLEDGED 1",
    ]
    assert acquire(share, log(30)) == [
        (11, 11, 1),
        (12, 14, 3),
        (15, 19, 1),
        (25, 29, 1),
    ]


def test_it_is_rebuilt_from_a_start_alone() -> None:
    share = SharePartition.rebuilt(7, [], Limits())
    assert (share.start_offset, share.next_offset, share.in_flight_count) == (7, 7, 0)
    assert acquire(share, log(10)) == [(7, 9, 1)]
    assert Acquired(7, 9, 1) == (7, 9, 1)
