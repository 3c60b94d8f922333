"""The small values: election state, voters, batches, progress, snapshots."""

import pytest
from tests.unit.quorum.raft.dialogue import VOTERS, entry, key

from headrace.quorum.batches import (
    cut_batches,
    leader_change_batch,
    stamped,
    voters_batch,
    voters_in,
)
from headrace.quorum.election_state import NO_LEADER, ElectionState
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.progress import ProgressTable, majority_value
from headrace.quorum.settings import QuorumSettings
from headrace.quorum.snapshots import Snapshots
from headrace.quorum.voters import Endpoint, Voter, VoterHistory, VoterSet

# -- election state --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", [ElectionState(), ElectionState(3, 2), ElectionState(4, NO_LEADER, key(1))]
)
def test_election_state_as_a_message(state: ElectionState) -> None:
    assert ElectionState.from_message(state.to_message()) == state


def test_a_newer_epoch_forgets_the_vote_and_the_same_keeps_it() -> None:
    voted = ElectionState(4, NO_LEADER, key(1))
    assert voted.with_leader(4, 1).voted_key == key(1)
    assert voted.with_leader(5, 2).voted_key is None
    with pytest.raises(AssertionError):
        voted.with_leader(3, 1)
    with pytest.raises(AssertionError):
        voted.with_vote(4, key(2))


# -- voters ----------------------------------------------------------------------------------


def test_voters_as_a_record() -> None:
    voters = VoterSet([Voter(key(2), (Endpoint("C", "host", 9),)), Voter(key(1))])
    assert VoterSet.from_record(voters.to_record()) == voters
    assert [k.id for k in voters.keys] == [1, 2]


def test_a_replica_with_another_disk_is_no_voter() -> None:
    assert key(1) in VOTERS
    assert key(1, disk=1) not in VOTERS
    assert VOTERS.with_id(1) is not None


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(count: int, majority: int) -> None:
    assert VoterSet.of(*(key(n) for n in range(count))).majority_count == majority


def test_the_history_falls_back_when_the_log_is_cut() -> None:
    two, four = VOTERS.without(key(3)), VOTERS.with_voter(Voter(key(4)))
    history = VoterHistory(VOTERS)
    history.add(5, two)
    history.add(9, four)
    assert history.at(5) == VOTERS
    assert history.at(6) == two
    history.truncate_to(9)
    assert history.latest == two
    history.start_at(7)
    assert history.at(7) == two
    history.truncate_to(7)
    assert history.latest == two
    history.reset(four)
    assert (history.latest, history.latest_offset) == (four, -1)


# -- batches ---------------------------------------------------------------------------------


def test_cut_batches_stops_where_the_bytes_are_not_sound() -> None:
    data = entry(0, 1) + entry(1, 1) + entry(2, 2)
    assert [b.base_offset for b in cut_batches(data, 0, 0, 2)] == [0, 1, 2]
    assert [b.base_offset for b in cut_batches(data[:-1], 0, 0, 2)] == [0, 1]
    flipped = bytearray(data)
    flipped[len(entry(0, 1)) + 30] ^= 1
    assert [b.base_offset for b in cut_batches(bytes(flipped), 0, 0, 2)] == [0]
    assert cut_batches(data, 1, 0, 2) == []
    assert cut_batches(data, 0, 2, 2) == [], "epochs never go down"
    assert len(cut_batches(data, 0, 0, 1)) == 2, "nor above the leader's"
    assert cut_batches(entry(0, 1) + entry(5, 1), 0, 0, 1)[-1].next_offset == 1, "no gap"


def test_control_batches_bring_voters() -> None:
    assert voters_in(voters_batch(VOTERS, 0)) == VOTERS
    assert voters_in(leader_change_batch(1, VOTERS, [key(1)], 0)) is None
    first = stamped(leader_change_batch(1, VOTERS, [key(1)], 0, with_voters=True), 0, 1)
    assert first.voters == VOTERS
    assert first.next_offset == 3
    assert cut_batches(first.data, 0, 0, 1) == [first]


# -- progress --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "majority"),
    [([7], 7), ([7, 3], 3), ([9, 5, 1], 5), ([9, 8, 2, 1], 2), ([5, 4, 3, 2, 1], 3)],
)
def test_majority_value(values: list[int], majority: int) -> None:
    assert majority_value(values) == majority


def test_only_voters_count_and_a_lost_disk_does_not() -> None:
    table = ProgressTable(0, 10)
    table.on_contact(key(2), VOTERS, 5).end_offset = 8
    table.on_contact(key(3, disk=1), VOTERS, 5).end_offset = 9
    assert table.durable_on_majority(VOTERS, key(1), 9) == 8
    assert table.durable_on_majority(VOTERS.without(key(2)), key(1), 9) == -1
    assert table.observers(VOTERS) == [key(3, disk=1)]


def test_a_leader_that_is_no_voter_counts_the_others_alone() -> None:
    table = ProgressTable(0, 10)
    table.on_contact(key(2), VOTERS, 5).end_offset = 4
    table.on_contact(key(3), VOTERS, 7).end_offset = 6
    others = VOTERS.without(key(1))
    assert table.durable_on_majority(others, key(1), 99) == 4
    assert table.majority_heard_ms(others, key(1), 100) == 5


def test_the_oldest_observer_makes_room() -> None:
    table = ProgressTable(0, 2)
    for number, now_ms in ((7, 3), (8, 1), (9, 2)):
        table.on_contact(key(number), VOTERS, now_ms)
    assert table.observers(VOTERS) == [key(7), key(9)]


# -- snapshots -------------------------------------------------------------------------------


def test_the_newest_snapshots_stay() -> None:
    snapshots = Snapshots({}, kept=2)
    assert snapshots.latest is None
    assert snapshots.add(SnapshotId(5, 1), 10) == []
    assert snapshots.add(SnapshotId(9, 2), 20) == []
    assert snapshots.add(SnapshotId(12, 2), 30) == [SnapshotId(5, 1)]
    assert snapshots.latest == SnapshotId(12, 2)
    assert snapshots.size_of(SnapshotId(9, 2)) == 20
    assert snapshots.size_of(SnapshotId(5, 1)) is None


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(AssertionError):
        QuorumSettings(fetch_max_wait_ms=600, request_timeout_ms=500)
