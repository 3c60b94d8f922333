"""Offsets and epochs: how two logs are compared, and what a sync means."""

import pytest
from tests.unit.quorum.raft.dialogue import entry, log_of

from headrace.quorum.batches import cut_batches
from headrace.quorum.log_view import Agreement, LogPosition, LogView, SnapshotId


def append(view: LogView, epoch: int) -> None:
    view.append(cut_batches(entry(view.end_offset, epoch), view.end_offset, 0, epoch))


def test_an_empty_log_agrees_with_every_other() -> None:
    assert log_of(1, 1, 2).compare(0, 0)[0] is Agreement.VALID
    assert LogView().compare(0, 0)[0] is Agreement.VALID


@pytest.mark.parametrize(
    ("offset", "epoch", "agreement", "end"),
    [
        (2, 1, Agreement.VALID, None),
        (3, 3, Agreement.VALID, None),
        (5, 5, Agreement.VALID, None),
        # More of an epoch than we have of it.
        (3, 1, Agreement.DIVERGING, SnapshotId(2, 1)),
        (7, 5, Agreement.DIVERGING, SnapshotId(5, 5)),
        # An epoch that we never had: the end of the last one before it.
        (4, 4, Agreement.DIVERGING, SnapshotId(4, 3)),
        (4, 2, Agreement.DIVERGING, SnapshotId(2, 1)),
        (3, 0, Agreement.DIVERGING, SnapshotId(0, 0)),
    ],
)
def test_compare(offset: int, epoch: int, agreement: Agreement, end: SnapshotId | None) -> None:
    ours = log_of(1, 1, 3, 3, 5)
    found, told = ours.compare(offset, epoch)
    assert found is agreement
    if end is not None:
        assert told == end


def test_what_lies_before_the_start_needs_a_snapshot() -> None:
    ours = log_of(3, 3, start=SnapshotId(10, 2))
    assert ours.compare(9, 2)[0] is Agreement.SNAPSHOT
    assert ours.compare(10, 2)[0] is Agreement.VALID
    assert ours.compare(10, 1)[0] is Agreement.SNAPSHOT
    assert ours.compare(11, 3)[0] is Agreement.VALID
    assert ours.compare(12, 1)[0] is Agreement.SNAPSHOT


def test_truncation_finds_the_last_common_epoch() -> None:
    ours = log_of(1, 1, 2, 2, 4)
    assert ours.truncation_for(SnapshotId(3, 2)) == 3
    assert ours.truncation_for(SnapshotId(9, 3)) == 4
    assert ours.truncation_for(SnapshotId(1, 1)) == 1


def test_two_logs_meet_by_truncation() -> None:
    """Every pair of small logs: fetch by fetch the follower comes down to what both share.

    An epoch has one leader, so in two logs it begins at the same offset behind the same entries.
    """
    logs = [
        (),
        (1,),
        (1, 1),
        (1, 2),
        (1, 2, 2),
        (1, 1, 1, 3),
        (1, 1, 1, 3, 3),
        (1, 2, 4),
        (1, 1, 5),
    ]
    for theirs in logs:
        for ours in logs:
            leader, follower = log_of(*theirs, 9), log_of(*ours)
            for _ in range(10):
                agreement, end = leader.compare(follower.end_offset, follower.last_epoch)
                if agreement is Agreement.VALID:
                    break
                follower.truncate_to(follower.truncation_for(end))
            shared = [a == b for a, b in zip(theirs, ours, strict=False)]
            assert follower.end_offset == ([*shared, False].index(False)), (theirs, ours)


def test_a_sync_from_before_a_truncation_says_nothing_of_what_came_after() -> None:
    view = log_of(1)
    append(view, 1)
    position = view.position
    view.truncate_to(1)
    append(view, 2)
    view.on_synced(position)
    assert view.synced_end == 1
    view.on_synced(view.position)
    assert view.is_synced


def test_a_late_sync_does_not_go_back() -> None:
    view = log_of(1, 1, 1)
    view.on_synced(LogPosition(1, view.generation))
    assert view.synced_end == 3


def test_the_start_moves_up_and_keeps_the_epoch_before_it() -> None:
    view = log_of(1, 2, 2, 3)
    view.start_at(2)
    assert (view.start_offset, view.start_epoch, view.end_offset) == (2, 2, 4)
    assert view.epoch_before(2) == 2
    view.start_at(4)
    assert view.last_epoch == 3
    view.reset_to(SnapshotId(20, 7))
    assert (view.start_offset, view.end_offset, view.last_epoch) == (20, 20, 7)


def test_up_to_date_is_judged_by_epoch_first() -> None:
    ours = log_of(1, 2, 2)
    assert ours.is_up_to_date(3, 1)
    assert ours.is_up_to_date(2, 3)
    assert not ours.is_up_to_date(2, 2)
    assert not ours.is_up_to_date(1, 99)
