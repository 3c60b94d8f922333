"""The leader's arithmetic: who is in sync, and what all of them have."""

import pytest

from headrace.broker.replication.in_sync import InSync, Proposal

ME, ONE, TWO = 1, 2, 3
LAG_MS = 1_000


def leader(isr: tuple[int, ...] = (ME, ONE, TWO), *, start: int = 0, now_ms: int = 0) -> InSync:
    return InSync(ME, 7, (ME, ONE, TWO), isr, 4, 10, start, LAG_MS, now_ms)


def fetch(sync: InSync, broker: int, offset: int, end: int, now_ms: int, epoch: int = 5) -> bool:
    return sync.on_fetch(broker, epoch, offset, 0, end, now_ms)


def test_the_high_watermark_is_what_every_member_has() -> None:
    sync = leader()
    fetch(sync, ONE, 5, 9, 1)
    assert sync.high_watermark(0, 9, 1) == 0  # 3 has not been heard of
    fetch(sync, TWO, 7, 9, 1)
    assert sync.high_watermark(0, 9, 1) == 5
    fetch(sync, ONE, 9, 9, 2)
    assert sync.high_watermark(5, 9, 1) == 7


def test_the_high_watermark_never_goes_back() -> None:
    sync = leader()
    fetch(sync, ONE, 3, 9, 1)
    fetch(sync, TWO, 3, 9, 1)
    assert sync.high_watermark(6, 9, 1) == 6


def test_nothing_is_committed_by_fewer_than_the_minimum() -> None:
    sync = leader((ME,))
    assert sync.high_watermark(2, 9, 2) == 2
    assert sync.high_watermark(2, 9, 1) == 9


def test_a_proposed_member_counts_before_the_controller_answers() -> None:
    sync = leader((ME, ONE))
    fetch(sync, ONE, 9, 9, 1)
    fetch(sync, TWO, 9, 9, 1)
    proposal = sync.maybe_expand(TWO, 9)
    assert proposal == Proposal((ME, ONE, TWO), (7, 5, 5), 4, 10)
    fetch(sync, ONE, 12, 12, 5_000)
    assert sync.high_watermark(9, 12, 1) == 9
    sync.on_refused(proposal)
    assert sync.high_watermark(9, 12, 1) == 12


def test_a_follower_that_is_about_to_join_is_waited_for() -> None:
    sync = leader((ME,), start=3)
    fetch(sync, ONE, 5, 5, 1_000)
    assert sync.high_watermark(4, 8, 1) == 5
    assert sync.maybe_shrink(8, 9_000) is None
    assert sync.high_watermark(4, 8, 1) == 8, "it has not been seen for too long"


def test_a_follower_that_was_fenced_is_not_waited_for() -> None:
    """It was in sync a moment ago, but it is dead: writers don't wait for its lag to show."""
    may_join = {ONE: True, TWO: True}
    sync = InSync(
        ME, 7, (ME, ONE, TWO), (ME, ONE, TWO), 4, 10, 0, LAG_MS, 0, lambda who, _: may_join[who]
    )
    fetch(sync, ONE, 5, 5, 1)
    fetch(sync, TWO, 5, 5, 1)
    fetch(sync, ONE, 9, 9, 2)
    assert sync.high_watermark(5, 9, 2) == 5, "in sync: it counts, dead or alive"
    assert sync.on_decided((ME, ONE), 11)
    fetch(sync, TWO, 5, 5, 3)
    assert sync.high_watermark(5, 9, 2) == 5, "it may be on its way back in"
    may_join[TWO] = False
    assert sync.high_watermark(5, 9, 2) == 9


def test_a_follower_that_was_taken_out_is_waited_for_only_when_it_fetches_again() -> None:
    """Its directory failed, its broker lives: it will not fetch this partition any more."""
    sync = leader()
    for follower in (ONE, TWO):
        fetch(sync, follower, 5, 5, 1)
    fetch(sync, ONE, 9, 9, 2)
    assert sync.on_decided((ME, ONE), 11)
    assert sync.high_watermark(5, 9, 2) == 9


@pytest.mark.parametrize(("offset", "joins"), [(4, False), (5, False), (6, True)])
def test_nobody_joins_below_the_start_of_the_leaders_epoch(offset: int, joins: bool) -> None:
    """KAFKA-7128."""
    sync = leader((ME,), start=6)
    fetch(sync, ONE, offset, 9, 1)
    assert (sync.maybe_expand(ONE, 5) is not None) is joins


def test_nobody_joins_who_the_metadata_does_not_allow() -> None:
    """KIP-903: the life that fetched is not the one that is registered."""
    sync = InSync(ME, 7, (ME, ONE, TWO), (ME,), 4, 10, 0, LAG_MS, 0, lambda _, epoch: epoch == 6)
    fetch(sync, ONE, 9, 9, 1, epoch=5)
    assert sync.maybe_expand(ONE, 9) is None
    assert not sync.is_proposing


def test_a_fetch_of_an_older_life_is_not_counted() -> None:
    sync = leader((ME,))
    assert fetch(sync, ONE, 2, 9, 1, epoch=8)
    assert not fetch(sync, ONE, 9, 9, 2, epoch=5)
    assert sync.followers[ONE].log_end_offset == 2


def test_who_is_behind_for_too_long_leaves() -> None:
    sync = leader()
    fetch(sync, ONE, 9, 9, 1)
    fetch(sync, TWO, 4, 9, 1)
    assert sync.maybe_shrink(9, LAG_MS) is None, "everybody gets the whole lag time"
    proposal = sync.maybe_shrink(9, LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (ME, ONE)
    assert sync.maybe_shrink(9, 9_000) is None, "one proposal at a time"
    fetch(sync, ONE, 20, 20, 2_000)
    assert sync.high_watermark(4, 20, 1) == 4, "it counts until it is out"
    assert sync.on_decided((ME, ONE), 11)
    assert sync.high_watermark(4, 20, 1) == 20


def test_a_follower_that_reaches_the_end_of_the_fetch_before_keeps_up() -> None:
    sync = leader()
    for now_ms in range(0, 5_000, 500):
        fetch(sync, ONE, now_ms, now_ms + 500, now_ms)
        fetch(sync, TWO, now_ms, now_ms + 500, now_ms)
    assert sync.maybe_shrink(5_500, 5_000) is None


def test_old_news_changes_nothing() -> None:
    sync = leader()
    assert sync.on_decided((ME, TWO), 12)
    assert not sync.on_decided((ME, ONE, TWO), 11)
    assert sync.isr == (ME, TWO)
    assert sync.partition_epoch == 12


def test_a_stranger_is_refused() -> None:
    assert not leader().on_fetch(9, 1, 0, 0, 0, 0)


def test_a_reassignment_brings_new_followers_without_credit() -> None:
    sync = leader()
    fetch(sync, ONE, 9, 9, 1)
    sync.on_replicas((ME, ONE, 4))
    assert set(sync.followers) == {ONE, 4}
    assert sync.followers[ONE].log_end_offset == 9
    assert sync.followers[4].is_behind(9, 1, LAG_MS)


def test_changes_are_told_when_they_are_decided() -> None:
    told: list[tuple[int, int]] = []
    sync = InSync(
        ME,
        7,
        (ME, ONE, TWO),
        (ME, ONE, TWO),
        4,
        10,
        0,
        LAG_MS,
        0,
        on_changed=lambda left, joined: told.append((left, joined)),
    )
    proposal = sync.maybe_shrink(9, LAG_MS * 2)
    assert proposal is not None
    sync.on_refused(proposal)
    assert told == [], "proposed and refused"
    assert sync.on_decided((ME,), 11)
    assert not sync.on_decided((ME,), 11), "the answer and the record say it twice"
    assert sync.on_decided((ME, ONE), 12)
    assert told == [(2, 0), (0, 1)]
    sync.on_replicas((ME, TWO))
    assert sync.on_decided((ME,), 13)
    assert told[2] == (0, 0), "it was moved away, and did not fall behind"


def test_everybody_is_heard_when_all_in_sync_have_fetched() -> None:
    sync = leader((ME, ONE))
    assert not sync.is_all_heard
    fetch(sync, TWO, 0, 0, 1)
    assert not sync.is_all_heard
    fetch(sync, ONE, 0, 0, 1)
    assert sync.is_all_heard
    assert leader((ME,)).is_all_heard
