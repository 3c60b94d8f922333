"""The answers of a replica that can't do what only a leader does, for each request.

Owns: the form of "not the leader" in every API. Must not know: what a leader answers.
"""

from typing import TYPE_CHECKING

from headrace.quorum.log_view import SnapshotId
from headrace.quorum.messages import fetch_error, fetch_snapshot_response
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    add_raft_voter,
    describe_quorum,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
)

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode


def not_leader(node: "RaftNode", message: Message) -> Message:
    return leader_error(node, message, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def leader_error(node: "RaftNode", message: Message, error: ErrorCode, words: str = "") -> Message:
    """`error` as the answer to a request that goes to leaders; it names the leader we know."""
    me, words = node.me, words or error.message
    match message:
        case fetch.FetchRequest():
            return fetch_error(me, error, node.told_leader_id, node.epoch, node.voters.latest)
        case fetch_snapshot.FetchSnapshotRequest():
            none, voters = SnapshotId(-1, -1), node.voters.latest
            leader_id = node.told_leader_id
            return fetch_snapshot_response(me, error, leader_id, node.epoch, none, voters=voters)
        case describe_quorum.DescribeQuorumRequest():
            return describe_error(node, message, error)
        case add_raft_voter.AddRaftVoterRequest():
            return add_raft_voter.AddRaftVoterResponse(error_code=error, error_message=words)
        case remove_raft_voter.RemoveRaftVoterRequest():
            return remove_raft_voter.RemoveRaftVoterResponse(error_code=error, error_message=words)
        case update_raft_voter.UpdateRaftVoterRequest():
            return voter_update_response(node, error)
    raise AssertionError(f"no request for a leader: {type(message).__name__}")


def voter_update_response(
    node: "RaftNode", error: ErrorCode
) -> update_raft_voter.UpdateRaftVoterResponse:
    leader = node.voters.latest.with_id(node.told_leader_id)
    endpoint = leader.endpoints[0] if leader and leader.endpoints else None
    return update_raft_voter.UpdateRaftVoterResponse(
        error_code=error,
        current_leader=update_raft_voter.CurrentLeader(
            leader_id=node.told_leader_id,
            leader_epoch=node.epoch,
            host=endpoint.host if endpoint else "",
            port=endpoint.port if endpoint else 0,
        ),
    )


def describe_error(
    node: "RaftNode", request: describe_quorum.DescribeQuorumRequest, error: ErrorCode
) -> describe_quorum.DescribeQuorumResponse:
    def refused(
        asked: describe_quorum.PartitionData,
    ) -> describe_quorum.DescribeQuorumResponsePartitionData:
        return describe_quorum.DescribeQuorumResponsePartitionData(
            partition_index=asked.partition_index,
            error_code=error,
            error_message=error.message,
            leader_id=node.told_leader_id,
            leader_epoch=node.epoch,
            high_watermark=-1,
        )

    topics = [
        describe_quorum.DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name, partitions=[refused(asked) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    return describe_quorum.DescribeQuorumResponse(topics=topics)
