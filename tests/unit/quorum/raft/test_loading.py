"""What a restart makes of a disk."""

from tests.unit.quorum.raft.dialogue import VOTERS, key, log_of

from headrace.quorum.batches import Batch, stamped, voters_batch
from headrace.quorum.election_state import ElectionState
from headrace.quorum.loading import is_log_superseded, load
from headrace.quorum.log_view import SnapshotId
from headrace.wire.kafka.records import build_batch


def test_voters_come_from_the_start_and_from_entries() -> None:
    start = SnapshotId(5, 2)
    two = VOTERS.without(key(3))
    batches: list[Batch] = [
        stamped(build_batch([(None, b"v", (), 0)]), 5, 2),
        stamped(voters_batch(two, 0), 6, 3),
    ]
    loaded = load(ElectionState(3), start, VOTERS, batches, {start: 10})
    assert (loaded.log.start_offset, loaded.log.end_offset) == (5, 7)
    assert loaded.log.is_synced
    assert loaded.voters.latest == two
    assert loaded.voters.at(6) == VOTERS


def test_a_snapshot_supersedes_a_log_that_does_not_hold_it() -> None:
    log = log_of(1, 1, 2)
    assert not is_log_superseded(log, SnapshotId(2, 1))
    assert not is_log_superseded(log, SnapshotId(3, 2))
    assert is_log_superseded(log, SnapshotId(4, 2)), "the log ends before it"
    assert is_log_superseded(log, SnapshotId(3, 3)), "the log went another way"
