"""Votes, pre-votes and epochs, as one replica answers and asks."""

from tests.unit.quorum.raft.dialogue import TOKEN, Dialogue, entry, identity, key, log_of

from headrace.quorum.batches import cut_batches
from headrace.quorum.election_state import NO_LEADER, ElectionState
from headrace.quorum.events import RequestFailed, RequestReceived, Resign
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.messages import end_quorum_epoch_request, vote_request
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.vote import VoteRequest, VoteResponse


def test_a_voter_alone_leads_at_once() -> None:
    dialogue = Dialogue(voters=VoterSet.of(key(1)))
    ready = dialogue.sleep(0)
    assert dialogue.role == "leader"
    assert ready.election_state == ElectionState(1, 1, key(1))
    assert ready.append[0].voters == VoterSet.of(key(1))
    assert ready.high_watermark is None
    assert dialogue.synced().high_watermark == 3


def test_a_vote_is_in_the_same_ready_as_its_persisted_state() -> None:
    dialogue = Dialogue()
    told, ready = dialogue.asked_for_vote(2, 5, log_of())
    assert told.vote_granted
    assert ready.election_state == ElectionState(5, NO_LEADER, key(2))


def test_one_vote_an_epoch_and_the_same_again() -> None:
    dialogue = Dialogue()
    dialogue.asked_for_vote(2, 5, log_of())
    assert not dialogue.asked_for_vote(3, 5, log_of())[0].vote_granted
    again, ready = dialogue.asked_for_vote(2, 5, log_of())
    assert again.vote_granted
    assert ready.election_state is None


def test_no_vote_for_an_older_epoch_or_a_shorter_log() -> None:
    dialogue = Dialogue(log=log_of(1, 2), election=ElectionState(4))
    told, _ = dialogue.asked_for_vote(2, 3, log_of(1, 2, 3))
    assert told.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert told.leader_epoch == 4
    assert not dialogue.asked_for_vote(2, 5, log_of(1, 1, 1))[0].vote_granted
    assert dialogue.node.epoch == 5, "the epoch exists nevertheless"
    assert dialogue.asked_for_vote(3, 5, log_of(1, 2))[0].vote_granted


def test_a_vote_for_the_disk_that_was_lost_is_not_given() -> None:
    dialogue = Dialogue(disk=1)
    assert dialogue.role == "observer"
    told, ready = dialogue.asked_for_vote(2, 5, log_of(), disk=0)
    assert told.error_code == ErrorCode.INVALID_VOTER_KEY
    assert ready.election_state is None
    assert dialogue.node.epoch == 0


def test_an_observer_that_is_meant_votes() -> None:
    """The entry that makes it a voter may not have come yet."""
    dialogue = Dialogue(4)
    assert dialogue.role == "observer"
    assert dialogue.asked_for_vote(2, 5, log_of())[0].vote_granted


def test_a_pre_vote_binds_nobody() -> None:
    dialogue = Dialogue()
    for candidate in (2, 3, 2):
        told, ready = dialogue.asked_for_vote(candidate, 0, log_of(), pre_vote=True)
        assert told.vote_granted
        assert ready.election_state is None


def test_a_follower_that_hears_from_its_leader_gives_no_pre_vote() -> None:
    dialogue = Dialogue()
    ready = dialogue.told_of_leader(2, 1)
    assert dialogue.role == "follower"
    told, _ = dialogue.asked_for_vote(3, 1, log_of(), pre_vote=True)
    assert told.vote_granted, "the leader has not answered yet"
    assert told.leader_id == NO_LEADER
    dialogue.fetch_answer(ready.sends[0].request_id, high_watermark=0, records=b"")
    told, _ = dialogue.asked_for_vote(3, 1, log_of(), pre_vote=True)
    assert not told.vote_granted
    assert told.leader_id == 2


def test_the_way_to_leadership() -> None:
    dialogue = Dialogue()
    ready = dialogue.until_due()
    assert dialogue.role == "prospective"
    assert ready.election_state is None, "a pre-vote changes nothing on disk"
    assert [send.target_id for send in ready.sends] == [2, 3]
    ready = dialogue.answer_votes(ready)
    assert dialogue.role == "candidate"
    assert ready.election_state == ElectionState(1, NO_LEADER, key(1))
    ready = dialogue.answer_votes(ready)
    assert dialogue.role == "leader"
    assert ready.election_state == ElectionState(1, 1, key(1))
    assert ready.append[0].epoch == 1


def test_denied_pre_votes_begin_no_epoch() -> None:
    dialogue = Dialogue()
    for _ in range(20):
        ready = dialogue.until_due()
        assert dialogue.role == "prospective"
        dialogue.answer_votes(ready, granted=False)
    assert dialogue.node.epoch == 0


def test_a_candidate_that_fails_asks_for_pre_votes_again() -> None:
    dialogue = Dialogue()
    dialogue.answer_votes(dialogue.until_due())
    assert dialogue.role == "candidate"
    dialogue.sleep(2 * dialogue.node.settings.election_timeout_ms)
    assert dialogue.role == "prospective"
    assert dialogue.node.epoch == 1


def test_a_vote_of_an_older_round_does_not_count() -> None:
    dialogue = Dialogue()
    pre_votes = dialogue.until_due()
    dialogue.answer_votes(pre_votes)
    assert dialogue.role == "candidate"
    dialogue.answer_votes(pre_votes)
    assert dialogue.role == "candidate"


def test_a_restarted_leader_does_not_lead_its_epoch_again() -> None:
    dialogue = Dialogue(log=log_of(1, 2), election=ElectionState(2, 1, key(1)))
    assert dialogue.role == "resigned"
    ready = dialogue.sleep(0)
    assert all(isinstance(send.message, EndQuorumEpochRequest) for send in ready.sends)
    assert not dialogue.asked_for_vote(2, 2, log_of(1, 2, 2))[0].vote_granted
    dialogue.lead()
    assert dialogue.node.epoch == 3


def test_a_restarted_candidate_keeps_its_vote() -> None:
    dialogue = Dialogue(election=ElectionState(2, NO_LEADER, key(1)))
    assert dialogue.role == "unattached"
    assert not dialogue.asked_for_vote(2, 2, log_of())[0].vote_granted


def test_a_silent_leader_is_replaced_and_a_refused_connection_hurries() -> None:
    dialogue = Dialogue()
    dialogue.told_of_leader(2, 1)
    dialogue.sleep(dialogue.node.settings.fetch_timeout_ms - 1)
    assert dialogue.role == "follower"
    dialogue.sleep(dialogue.node.settings.election_timeout_ms)
    assert dialogue.role == "prospective"

    hurried = Dialogue()
    ready = hurried.told_of_leader(2, 1)
    hurried.step(RequestFailed(ready.sends[0].request_id, refused=True))
    hurried.sleep(hurried.node.settings.election_timeout_ms // 5)
    assert hurried.role == "prospective"


def test_the_end_of_an_epoch_lets_the_first_candidate_go_first() -> None:
    ends = []
    for position in (0, 1):
        dialogue = Dialogue()
        dialogue.told_of_leader(2, 1)
        preferred = [key(1), key(3)] if position == 0 else [key(3), key(1)]
        dialogue.request(end_quorum_epoch_request(identity(2), 1, preferred))
        deadline_ms = dialogue.node.role.next_deadline_ms()
        assert deadline_ms is not None
        ends.append(deadline_ms - dialogue.now_ms)
    assert ends[0] == 0
    assert ends[1] > 0


def test_a_leader_resigns_on_request_and_names_successors_by_their_logs() -> None:
    dialogue = Dialogue()
    dialogue.lead()
    dialogue.synced()
    dialogue.fetched_by(3, log_of())
    dialogue.fetched_by(2, dialogue.node.log)
    dialogue.fetched_by(2, dialogue.node.log, high_watermark=dialogue.node.high_watermark)
    ready = dialogue.step(Resign())
    assert dialogue.role == "resigned"
    message = ready.sends[0].message
    assert isinstance(message, EndQuorumEpochRequest)
    order = [c.candidate_id for c in message.topics[0].partitions[0].preferred_candidates]
    assert order == [2, 3]
    (refused,) = ready.replies
    partition = refused.message.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == NO_LEADER


def test_two_leaders_of_an_epoch_stop_the_replica() -> None:
    dialogue = Dialogue()
    dialogue.told_of_leader(2, 1)
    ready = dialogue.told_of_leader(3, 1)
    assert ready.halt is not None
    assert "two leaders" in ready.halt
    assert ready.replies == []
    assert dialogue.sleep(5_000).sends == []


def test_epoch_zero_has_no_leader() -> None:
    """An answer that leaves the leader out tells of leader 0 in epoch 0."""
    dialogue = Dialogue()
    dialogue.node.adopt(0, 0)
    assert dialogue.role == "unattached"
    assert not dialogue.node.has_leader


def test_requests_of_another_cluster_or_shape_are_refused() -> None:
    dialogue = Dialogue()
    request = vote_request(identity(2), key(1), 1, log_of(), pre_vote=False)
    request.cluster_id = "another"
    reply = dialogue.step(RequestReceived(TOKEN, request)).replies[0].message
    assert isinstance(reply, VoteResponse)
    assert reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    reply = (
        dialogue.step(RequestReceived(TOKEN, VoteRequest(cluster_id="cluster"))).replies[0].message
    )
    assert isinstance(reply, VoteResponse)
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    reply = dialogue.step(RequestReceived(TOKEN, FetchRequest())).replies[0].message
    assert reply.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
    assert dialogue.node.epoch == 0


def lacking(*epochs: int) -> LogView:
    """A log that had two entries of epoch 2 more."""
    log = log_of(*epochs)
    log.note_past(SnapshotId(log.end_offset + 2, 2))
    return log


def test_a_voter_that_lacks_what_it_had_looks_for_no_votes() -> None:
    dialogue = Dialogue(log=lacking(1, 1), election=ElectionState(2))
    for _ in range(20):
        for send in dialogue.until_due().sends:
            assert isinstance(send.message, FetchRequest)
    assert dialogue.role == "observer"
    assert dialogue.node.epoch == 2


def test_it_votes_for_those_alone_who_have_what_it_lacks() -> None:
    dialogue = Dialogue(log=lacking(1, 1), election=ElectionState(2))
    for shorter in (log_of(1, 1), log_of(1, 1, 2), log_of(1, 1, 1, 1, 1)):
        assert not dialogue.asked_for_vote(2, 3, shorter, pre_vote=True)[0].vote_granted
        assert not dialogue.asked_for_vote(2, 3, shorter)[0].vote_granted
    assert dialogue.asked_for_vote(3, 3, log_of(1, 1, 2, 2))[0].vote_granted
    assert dialogue.asked_for_vote(3, 4, log_of(1, 3))[0].vote_granted


def test_it_is_a_voter_as_any_other_once_it_has_it_again() -> None:
    dialogue = Dialogue(log=lacking(1, 1), election=ElectionState(2))
    dialogue.told_of_leader(2, 3)
    assert dialogue.role == "observer"
    dialogue.node.append(cut_batches(entry(2, 2), 2, 1, 3))
    assert not dialogue.node.reconsider_membership()
    dialogue.node.append(cut_batches(entry(3, 2), 3, 2, 3))
    assert dialogue.node.reconsider_membership()
    assert dialogue.role == "follower"


def test_a_leader_that_lacks_what_it_had_resigns_and_waits() -> None:
    election = ElectionState(2, 1, key(1))
    dialogue = Dialogue(log=lacking(1, 1), election=election)
    assert dialogue.role == "resigned"
    while dialogue.role == "resigned":
        dialogue.until_due()
    assert dialogue.role == "observer"
