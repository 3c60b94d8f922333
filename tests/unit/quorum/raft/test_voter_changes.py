"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and DescribeQuorum, as a leader answers them."""

from typing import Any

from tests.unit.quorum.raft.dialogue import VOTERS, Dialogue, key, log_of

from headrace.quorum.events import Ready, Resign
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.kafka.messages.update_raft_voter import UpdateRaftVoterRequest


def describe_request(topic_name: str) -> DescribeQuorumRequest:
    partition = PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[TopicData(topic_name=topic_name, partitions=[partition])])


def established() -> Dialogue:
    """A leader that has committed an entry of its epoch, with both followers at its heels."""
    dialogue = Dialogue()
    dialogue.lead()
    dialogue.synced()
    catch_up(dialogue)
    assert dialogue.node.high_watermark == dialogue.node.log.end_offset
    return dialogue


def catch_up(dialogue: Dialogue, *ids: int) -> None:
    for node_id in ids or (2, 3):
        dialogue.fetched_by(node_id, dialogue.node.log, high_watermark=2**62)


def add(node_id: int, disk: int = 0, **fields: Any) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id="cluster",
        voter_id=node_id,
        voter_directory_id=key(node_id, disk).directory_id,
        listeners=[Listener(name="CONTROLLER", host="h", port=1)],
        **fields,
    )


def remove(node_id: int, disk: int = 0) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id="cluster",
        voter_id=node_id,
        voter_directory_id=key(node_id, disk).directory_id,
    )


def error_in(ready: Ready) -> int:
    code: int = next(
        reply.message.error_code  # type: ignore[attr-defined]
        for reply in ready.replies
        if "RaftVoter" in type(reply.message).__name__
    )
    return code


def test_a_voter_is_added_once_it_has_caught_up() -> None:
    dialogue = established()
    assert error_in(dialogue.request(add(4))) == ErrorCode.REQUEST_TIMED_OUT
    catch_up(dialogue, 4)
    ready = dialogue.request(add(4))
    assert ready.append[0].voters is not None
    assert key(4) in dialogue.node.voters.latest, "it holds at once"
    assert not any("RaftVoter" in type(r.message).__name__ for r in ready.replies)
    dialogue.synced()
    catch_up(dialogue, 2)
    ready = dialogue.fetched_by(3, dialogue.node.log)
    assert error_in(ready) == ErrorCode.NONE


def test_an_addition_may_be_answered_before_it_is_committed() -> None:
    dialogue = established()
    catch_up(dialogue, 4)
    assert error_in(dialogue.request(add(4, ack_when_committed=False))) == ErrorCode.NONE


def test_one_change_at_a_time() -> None:
    dialogue = established()
    dialogue.request(remove(3))
    ready = dialogue.request(remove(2))
    assert error_in(ready) == ErrorCode.REQUEST_TIMED_OUT
    assert ready.append == []


def test_no_change_before_an_entry_of_the_own_epoch_is_committed() -> None:
    dialogue = Dialogue(log=log_of(1, 1))
    dialogue.lead()
    assert error_in(dialogue.request(remove(3))) == ErrorCode.REQUEST_TIMED_OUT


def test_an_id_votes_once_and_a_lost_disk_is_taken_out_by_its_key() -> None:
    dialogue = established()
    catch_up(dialogue, 2)
    dialogue.fetched_by(3, dialogue.node.log, disk=1)
    assert error_in(dialogue.request(add(3, disk=1))) == ErrorCode.DUPLICATE_VOTER
    assert error_in(dialogue.request(remove(3, disk=1))) == ErrorCode.VOTER_NOT_FOUND
    assert dialogue.request(remove(3)).append != []


def test_the_last_voter_stays() -> None:
    dialogue = Dialogue(voters=VoterSet.of(key(1)))
    dialogue.sleep(0)
    dialogue.synced()
    assert error_in(dialogue.request(remove(1))) == ErrorCode.INVALID_REQUEST


def test_a_change_that_would_leave_too_few_fetching_is_refused() -> None:
    dialogue = established()
    dialogue.sleep(600)
    catch_up(dialogue, 2)
    dialogue.sleep(600)
    assert dialogue.role == "leader"
    assert error_in(dialogue.request(remove(2))) == ErrorCode.REQUEST_TIMED_OUT
    assert dialogue.request(remove(3)).append != []


def test_a_leader_that_is_removed_leads_until_that_is_committed() -> None:
    dialogue = established()
    dialogue.request(remove(1))
    assert dialogue.role == "leader"
    dialogue.synced()
    catch_up(dialogue, 2)
    assert dialogue.role == "leader", "its own copy no longer counts"
    ready = dialogue.fetched_by(3, dialogue.node.log)
    assert dialogue.role == "resigned"
    assert error_in(ready) == ErrorCode.NONE
    dialogue.sleep(2 * dialogue.node.settings.election_timeout_ms)
    assert dialogue.role == "observer"


def test_lost_leadership_answers_a_waiting_change() -> None:
    dialogue = established()
    dialogue.request(remove(3))
    ready = dialogue.told_of_leader(2, dialogue.node.epoch + 1)
    assert error_in(ready) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_update_is_of_a_voter_and_of_the_epoch() -> None:
    dialogue = established()
    request = UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=dialogue.node.epoch - 1,
        voter_id=2,
        voter_directory_id=key(2).directory_id,
    )
    assert error_in(dialogue.request(request)) == ErrorCode.FENCED_LEADER_EPOCH
    request.current_leader_epoch = dialogue.node.epoch
    ready = dialogue.request(request)
    assert ready.append[0].voters is not None
    assert ready.append[0].voters.keys == VOTERS.keys


def test_tools_are_told_who_does_not_lead() -> None:
    dialogue = Dialogue()
    assert error_in(dialogue.request(remove(3))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (reply,) = dialogue.request(describe_request("__cluster_metadata")).replies
    assert isinstance(reply.message, DescribeQuorumResponse)
    partition = reply.message.topics[0].partitions[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_describe_tells_voters_and_observers() -> None:
    dialogue = established()
    dialogue.fetched_by(9, log_of())
    (reply,) = dialogue.request(describe_request("__cluster_metadata")).replies
    message, _ = decode(DescribeQuorumResponse, encode(reply.message, 2), 2)
    partition = message.topics[0].partitions[0]
    assert partition.leader_id == 1
    assert partition.high_watermark == dialogue.node.high_watermark
    ends = {state.replica_id: state.log_end_offset for state in partition.current_voters}
    assert ends == dict.fromkeys((1, 2, 3), dialogue.node.log.end_offset)
    assert [state.replica_id for state in partition.observers] == [9]
    assert len(message.nodes) == 3


def test_another_topic_is_not_described() -> None:
    dialogue = established()
    (reply,) = dialogue.request(describe_request("another")).replies
    answer: Any = reply.message
    partition = answer.topics[0].partitions[0]
    assert answer.topics[0].topic_name == "another"
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_voter_is_waited_for() -> None:
    dialogue = established()
    ready = dialogue.request(add(4, timeout_ms=5_000))
    assert not ready.replies
    dialogue.fetched_by(4, log_of())
    assert dialogue.node.voters.latest == VOTERS
    ready = dialogue.fetched_by(4, dialogue.node.log)
    assert key(4) in dialogue.node.voters.latest
    dialogue.synced()
    dialogue.fetched_by(4, dialogue.node.log)
    ready = dialogue.fetched_by(2, dialogue.node.log)
    assert error_in(ready) == ErrorCode.NONE


def test_a_new_voter_that_never_comes_is_not_waited_for_longer_than_asked() -> None:
    dialogue = established()
    assert not dialogue.request(add(4, timeout_ms=700)).replies
    assert error_in(dialogue.request(add(5, timeout_ms=700))) == ErrorCode.REQUEST_TIMED_OUT
    dialogue.sleep(400)
    catch_up(dialogue)
    ready = dialogue.sleep(300)
    assert error_in(ready) == ErrorCode.REQUEST_TIMED_OUT
    assert dialogue.node.voters.latest == VOTERS


def test_a_change_that_is_not_committed_in_time_is_told_so() -> None:
    dialogue = established()
    dialogue.fetched_by(4, dialogue.node.log)
    assert not any(
        "Voter" in type(reply.message).__name__
        for reply in dialogue.request(add(4, timeout_ms=300)).replies
    )
    ready = dialogue.sleep(300)
    assert error_in(ready) == ErrorCode.REQUEST_TIMED_OUT
    assert key(4) in dialogue.node.voters.latest


def test_an_observer_that_is_gone_is_not_told_of() -> None:
    dialogue = established()
    dialogue.fetched_by(4, dialogue.node.log)

    def observers() -> list[int]:
        (reply,) = [
            reply
            for reply in dialogue.request(describe_request("__cluster_metadata")).replies
            if isinstance(reply.message, DescribeQuorumResponse)
        ]
        assert isinstance(reply.message, DescribeQuorumResponse)
        return [state.replica_id for state in reply.message.topics[0].partitions[0].observers]

    assert observers() == [4]
    for _ in range(700):
        dialogue.now_ms += 500
        catch_up(dialogue)
    assert dialogue.role == "leader"
    assert observers() == []


def test_a_sole_voter_does_not_resign() -> None:
    dialogue = Dialogue(voters=VoterSet.of(key(1)))
    dialogue.lead()
    dialogue.step(Resign())
    assert dialogue.role == "leader"
