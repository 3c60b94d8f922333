"""Fetching and being fetched from: acknowledgement, commit, divergence, snapshots."""

from typing import Any

import pytest
from tests.unit.quorum.raft.dialogue import VOTERS, Dialogue, entry, identity, key, log_of

from headrace.quorum.election_state import ElectionState
from headrace.quorum.events import (
    LogRead,
    Ready,
    ResponseReceived,
    SnapshotReceived,
    SnapshotWritten,
)
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.messages import fetch_request, fetch_snapshot_request
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import fetch, fetch_snapshot


def leading(**arguments: Any) -> Dialogue:
    dialogue = Dialogue(**arguments)
    dialogue.lead()
    return dialogue


def following(**arguments: Any) -> tuple[Dialogue, Ready]:
    """Follows 2; with the step that sent its first fetch."""
    dialogue = Dialogue(**arguments)
    return dialogue, dialogue.told_of_leader(2, dialogue.node.epoch + 1)


def answer_of(ready: Ready) -> fetch.PartitionData:
    (reply,) = ready.replies
    assert isinstance(reply.message, fetch.FetchResponse)
    return reply.message.responses[0].partitions[0]


# -- a leader --------------------------------------------------------------------------------


def test_committed_means_synced_on_a_majority() -> None:
    dialogue = leading()
    end_offset = dialogue.node.log.end_offset
    assert dialogue.fetched_by(2, dialogue.node.log).high_watermark is None, "own sync is missing"
    assert dialogue.synced().high_watermark == end_offset


def test_the_leader_need_not_be_among_the_majority() -> None:
    dialogue = leading()
    dialogue.fetched_by(2, dialogue.node.log)
    ready = dialogue.fetched_by(3, dialogue.node.log)
    assert ready.high_watermark == dialogue.node.log.end_offset


def test_an_entry_of_an_older_epoch_is_committed_by_one_of_our_own() -> None:
    dialogue = leading(log=log_of(1, 1, 1))
    assert dialogue.synced().high_watermark is None
    older = log_of(1, 1, 1)
    assert dialogue.fetched_by(2, older).high_watermark is None, "on a majority, and not ours"
    assert dialogue.fetched_by(2, dialogue.node.log).high_watermark == dialogue.node.log.end_offset


def test_a_lost_disk_does_not_count() -> None:
    dialogue = leading()
    dialogue.synced()
    assert dialogue.fetched_by(2, dialogue.node.log, disk=1).high_watermark is None
    assert dialogue.fetched_by(2, dialogue.node.log).high_watermark is not None


def test_a_replica_may_come_back_with_less() -> None:
    """KAFKA-12181: the leader goes on, and the high watermark stays."""
    dialogue = leading()
    dialogue.synced()
    dialogue.fetched_by(2, dialogue.node.log)
    high_watermark = dialogue.node.high_watermark
    answer = answer_of(dialogue.fetched_by(2, log_of()))
    assert answer.error_code == 0
    assert dialogue.node.high_watermark == high_watermark


def test_proposals_share_a_sync() -> None:
    dialogue = leading()
    first, second = dialogue.propose(), dialogue.propose()
    assert first.proposed is not None
    assert second.proposed is not None
    assert second.proposed.base_offset == first.proposed.next_offset
    assert second.sync is not None
    assert second.sync.end_offset == second.proposed.next_offset


def test_a_proposal_of_another_epoch_or_to_a_follower_does_nothing() -> None:
    dialogue, _ = following()
    ready = dialogue.propose()
    assert ready.proposed is not None
    assert ready.proposed.base_offset == -1
    assert ready.append == []


def test_a_fetch_waits_for_news_and_is_answered_in_time() -> None:
    dialogue = leading()
    dialogue.synced()
    high_watermark = dialogue.node.log.end_offset
    dialogue.fetched_by(2, dialogue.node.log)
    ready = dialogue.fetched_by(2, dialogue.node.log, high_watermark=high_watermark)
    assert ready.replies == []
    assert answer_of(dialogue.sleep(250)).records == b""
    dialogue.fetched_by(2, dialogue.node.log, high_watermark=dialogue.node.high_watermark)
    ready = dialogue.propose()
    (reply,) = ready.replies
    assert reply.read == LogRead(dialogue.node.log.end_offset - 1, 1_000_000)


def test_a_fetch_that_knows_an_older_high_watermark_does_not_wait() -> None:
    dialogue = leading()
    dialogue.synced()
    dialogue.fetched_by(2, dialogue.node.log)
    high_watermark = dialogue.node.high_watermark
    assert answer_of(dialogue.fetched_by(3, dialogue.node.log)).high_watermark == high_watermark


def test_a_second_fetch_of_a_replica_ends_the_first() -> None:
    dialogue = leading()
    dialogue.synced()
    dialogue.fetched_by(2, dialogue.node.log)
    dialogue.fetched_by(2, dialogue.node.log, high_watermark=99)
    assert len(dialogue.fetched_by(2, dialogue.node.log, high_watermark=99).replies) == 1


def test_a_diverging_replica_is_told_where() -> None:
    dialogue = leading(log=log_of(1, 1))
    answer = answer_of(dialogue.fetched_by(2, log_of(1, 1, 1, 1)))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch(epoch: int, error: ErrorCode) -> None:
    dialogue = leading(election=ElectionState(1))
    request = fetch_request(identity(2), epoch, log_of(), 0, 250, 1_000)
    assert answer_of(dialogue.request(request)).error_code == error
    assert dialogue.node.epoch == max(2, epoch)


def test_a_leader_that_nobody_fetches_from_resigns() -> None:
    dialogue = leading()
    dialogue.sleep(dialogue.node.settings.fetch_timeout_ms - 1)
    assert dialogue.role == "leader"
    dialogue.sleep(1)
    assert dialogue.role == "resigned"


def test_a_leader_that_slept_resigns_before_it_answers() -> None:
    dialogue = leading()
    dialogue.synced()
    dialogue.now_ms += 60_000
    answer = answer_of(dialogue.fetched_by(2, log_of()))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert dialogue.node.high_watermark == 0


def test_one_fetching_voter_of_three_keeps_a_leader() -> None:
    dialogue = leading()
    for _ in range(10):
        dialogue.sleep(500)
        dialogue.fetched_by(2, dialogue.node.log)
        dialogue.fetched_by(9, dialogue.node.log)
    assert dialogue.role == "leader"


# -- a follower ------------------------------------------------------------------------------


def test_nothing_is_fetched_before_what_was_fetched_is_synced() -> None:
    dialogue, ready = following()
    records = entry(0, 1) + entry(1, 1)
    ready = dialogue.fetch_answer(ready.sends[0].request_id, high_watermark=1, records=records)
    assert [batch.base_offset for batch in ready.append] == [0, 1]
    assert ready.sends == []
    assert ready.high_watermark == 1
    ready = dialogue.synced()
    message = ready.sends[0].message
    assert isinstance(message, fetch.FetchRequest)
    assert message.topics[0].partitions[0].fetch_offset == 2


def test_the_high_watermark_never_passes_the_log() -> None:
    dialogue, ready = following()
    ready = dialogue.fetch_answer(ready.sends[0].request_id, high_watermark=50, records=entry(0, 1))
    assert ready.high_watermark == 1


def test_an_answer_to_an_older_fetch_is_not_read() -> None:
    dialogue, ready = following()
    old_id = ready.sends[0].request_id
    dialogue.sleep(dialogue.node.settings.request_timeout_ms)
    assert dialogue.fetch_answer(old_id, high_watermark=1, records=entry(0, 1)).append == []


def test_a_diverging_follower_cuts_and_fetches_on() -> None:
    dialogue, ready = following(log=log_of(1, 1, 1))
    ready = dialogue.fetch_answer(
        ready.sends[0].request_id,
        high_watermark=0,
        diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=1),
    )
    assert ready.truncate_to == 1
    message = ready.sends[0].message
    assert isinstance(message, fetch.FetchRequest)
    assert message.topics[0].partitions[0].fetch_offset == 1


def test_nothing_below_the_high_watermark_is_cut() -> None:
    """KAFKA-12460: the replica stops, and neither writes nor says anything more."""
    dialogue, ready = following(log=log_of(1, 1, 1))
    ready = dialogue.fetch_answer(ready.sends[0].request_id, high_watermark=3, records=b"")
    assert dialogue.node.high_watermark == 3
    ready = dialogue.fetch_answer(
        ready.sends[0].request_id,
        high_watermark=3,
        diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=2),
    )
    assert ready.halt is not None
    assert "below the high watermark" in ready.halt
    assert (ready.truncate_to, ready.sends, ready.replies) == (None, [], [])


# -- snapshots -------------------------------------------------------------------------------


def test_a_replica_before_the_start_of_the_log_is_given_the_snapshot() -> None:
    snapshot_id = SnapshotId(4, 1)
    dialogue = leading(log=log_of(1, 1, start=snapshot_id), snapshots={snapshot_id: 100})
    answer = answer_of(dialogue.fetched_by(2, log_of(1)))
    assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == (4, 1)
    request = fetch_snapshot_request(identity(2), dialogue.node.epoch, snapshot_id, 40, 30)
    (reply,) = dialogue.request(request).replies
    assert isinstance(reply.message, fetch_snapshot.FetchSnapshotResponse)
    assert reply.message.topics[0].partitions[0].size == 100
    assert reply.read_snapshot is not None
    assert reply.read_snapshot.position == 40


@pytest.mark.parametrize(
    ("snapshot_id", "position", "error"),
    [
        (SnapshotId(3, 1), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(4, 1), 100, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_snapshot_that_is_not_there(
    snapshot_id: SnapshotId, position: int, error: ErrorCode
) -> None:
    kept = SnapshotId(4, 1)
    dialogue = leading(log=log_of(1, start=kept), snapshots={kept: 100})
    request = fetch_snapshot_request(identity(2), dialogue.node.epoch, snapshot_id, position, 30)
    (reply,) = dialogue.request(request).replies
    assert isinstance(reply.message, fetch_snapshot.FetchSnapshotResponse)
    assert reply.message.topics[0].partitions[0].error_code == error


def chunk(dialogue: Dialogue, request_id: int, position: int, data: bytes, size: int) -> Ready:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=9, epoch=1),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=2, leader_epoch=dialogue.node.epoch
        ),
        size=size,
        position=position,
        unaligned_records=data,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(partitions=[partition])
    response = fetch_snapshot.FetchSnapshotResponse(topics=[topic])
    return dialogue.step(ResponseReceived(request_id, response))


def test_a_lagging_follower_takes_the_snapshot_and_goes_on_behind_it() -> None:
    dialogue, ready = following(log=log_of(1))
    ready = dialogue.fetch_answer(
        ready.sends[0].request_id,
        high_watermark=0,
        snapshot_id=fetch.SnapshotId(end_offset=9, epoch=1),
    )
    assert isinstance(ready.sends[0].message, fetch_snapshot.FetchSnapshotRequest)
    ready = chunk(dialogue, ready.sends[0].request_id, 0, b"abc", 5)
    assert ready.snapshot_chunk is not None
    assert not ready.snapshot_chunk.is_last
    ready = chunk(dialogue, ready.sends[0].request_id, 3, b"de", 5)
    assert ready.snapshot_chunk is not None
    assert ready.snapshot_chunk.is_last
    assert ready.sends == [], "not before it is synced"
    ready = dialogue.step(SnapshotReceived(SnapshotId(9, 1), 5, VOTERS))
    assert ready.reset_log_to == SnapshotId(9, 1)
    assert ready.high_watermark == 9
    message = ready.sends[0].message
    assert isinstance(message, fetch.FetchRequest)
    assert message.topics[0].partitions[0].fetch_offset == 9


def test_a_snapshot_that_comes_too_late_is_dropped() -> None:
    """A leader never loads one."""
    dialogue = leading()
    ready = dialogue.step(SnapshotReceived(SnapshotId(9, 1), 5, VOTERS))
    assert ready.reset_log_to is None
    assert ready.delete_snapshots == [SnapshotId(9, 1)]


def test_a_written_snapshot_moves_the_start_of_the_log() -> None:
    dialogue, ready = following(log=log_of(1, 1, 1))
    dialogue.fetch_answer(ready.sends[0].request_id, high_watermark=3, records=b"")
    ready = dialogue.step(SnapshotWritten(SnapshotId(2, 1), 50, 2))
    assert ready.log_start_offset == 2
    assert dialogue.node.log.start_offset == 2
    assert dialogue.step(SnapshotWritten(SnapshotId(1, 1), 50, 1)).delete_snapshots == [
        SnapshotId(1, 1)
    ]
    assert key(1) in dialogue.node.voters.latest
