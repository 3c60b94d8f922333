"""Where a follower cuts: the table of KIP-279, case by case."""

import pytest

from headrace.broker.replication.truncation import cut_for
from headrace.log.epochs import LeaderEpochs

Entries = list[tuple[int, int]]


def converge(leader: Entries, leader_end: int, follower: Entries, follower_end: int) -> int:
    """Fetch and cut until the leader finds no difference; where the follower's log ends then."""
    leads, follows = LeaderEpochs(leader), LeaderEpochs(follower)
    end = follower_end
    for _ in range(10):
        last = follows.latest
        if last < 0:
            return end
        epoch, epoch_end = leads.end_offset_for(last, leader_end)
        if epoch == last and end <= epoch_end:
            return end
        own_epoch, own_end = follows.end_offset_for(epoch, end)
        cut = cut_for(epoch, epoch_end, own_epoch, own_end, end)
        assert cut <= end
        end = cut
        follows.truncate_from_end(end)
    raise AssertionError("the follower never agrees with the leader")


CASES = {
    "A-behind-in-the-same-epoch": ([(1, 0), (2, 4)], 4, [(1, 0)], 2, 2),
    "B-behind-by-an-epoch": ([(1, 0), (2, 2), (3, 4)], 4, [(1, 0)], 2, 2),
    "C-ahead-in-the-same-epoch": ([(1, 0), (2, 2)], 2, [(1, 0)], 4, 2),
    "D-ahead-by-an-epoch-that-is-unknown": ([(1, 0), (3, 2)], 2, [(1, 0), (2, 2)], 4, 2),
    "E-forked-in-two-epochs": ([(1, 0), (3, 2), (4, 4)], 4, [(1, 0), (2, 2)], 4, 2),
    "F-forked-within-the-leaders-epoch": ([(1, 0), (3, 2)], 2, [(1, 0), (2, 1)], 3, 1),
    "G-without-a-common-epoch": ([(1, 0), (3, 1), (4, 2)], 2, [(2, 0)], 2, 0),
}
"""Cases A to G of the divergence table (6.1 no. 3 of the regression scenarios), just after an
election: the leader's newest epoch begins at its end. Leader's epochs and end, follower's epochs
and end, where the follower's log ends when both agree."""


@pytest.mark.parametrize("case", CASES)
def test_6_1_no_3_the_divergence_table(case: str) -> None:
    leader, leader_end, follower, follower_end, expected = CASES[case]
    assert converge(leader, leader_end, follower, follower_end) == expected


@pytest.mark.parametrize(
    ("leader", "leader_end", "follower", "follower_end", "expected"),
    [
        pytest.param([(0, 0)], 5, [(0, 0)], 3, 3, id="a-prefix-stays"),
        pytest.param([(0, 0)], 5, [(0, 0)], 5, 5, id="equal-logs-stay"),
        pytest.param([(0, 0), (1, 2)], 4, [(0, 0)], 5, 2, id="longer-in-an-older-epoch"),
        pytest.param([(0, 0), (2, 2)], 4, [(0, 0), (1, 2)], 4, 2, id="an-epoch-nobody-has"),
        pytest.param([(0, 0), (3, 1)], 4, [(0, 0), (1, 1), (2, 3)], 5, 1, id="two-lost-epochs"),
        pytest.param([(0, 0), (2, 1)], 3, [(0, 0), (1, 2)], 4, 1, id="fast-failover"),
        pytest.param([(2, 0)], 3, [(1, 0)], 4, 0, id="nothing-in-common"),
        pytest.param([(0, 0), (1, 3)], 3, [(0, 0)], 5, 3, id="a-leader-that-wrote-nothing"),
        pytest.param([(4, 10)], 12, [(1, 0), (4, 10)], 14, 12, id="leader-without-old-epochs"),
    ],
)
def test_the_logs_agree_in_the_end(
    leader: Entries, leader_end: int, follower: Entries, follower_end: int, expected: int
) -> None:
    assert converge(leader, leader_end, follower, follower_end) == expected
