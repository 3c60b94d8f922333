"""The requests that any role answers: Vote, BeginQuorumEpoch, EndQuorumEpoch.

Owns: their checks and answers. Must not know: a role's own reasons to grant (`Role.grants`).
Spec: KIP-595, KIP-996 (pre-vote), KIP-853 (a request names the voter's directory).

Invariants: an answer tells of an epoch or a vote only behind their sync, because both come out of
one `Ready`; a voter whose disk is another one than the request means grants nothing.
"""

from typing import TYPE_CHECKING

from headrace.quorum.election_state import NO_LEADER, ReplicaKey
from headrace.quorum.messages import (
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    vote_response,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import begin_quorum_epoch, end_quorum_epoch, vote

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode


def is_for(node: "RaftNode", voter_id: int, directory_id: bytes) -> bool:
    """Does the sender mean this replica, with this disk?"""
    return voter_id == node.me.node_id and directory_id == node.me.directory_id


def serve_vote(
    node: "RaftNode", token: int, request: vote.VoteRequest, partition: vote.PartitionData
) -> None:
    error, granted = ErrorCode.NONE, False
    if not is_for(node, request.voter_id, partition.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    elif partition.replica_epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        if partition.replica_epoch > node.epoch:
            node.adopt(partition.replica_epoch, NO_LEADER)
        granted = _decide(node, partition)
    node.reply(
        token,
        vote_response(node.me, error, node.told_leader_id, node.epoch, granted, node.voters.latest),
    )


def _decide(node: "RaftNode", partition: vote.PartitionData) -> bool:
    key = ReplicaKey(partition.replica_id, partition.replica_directory_id)
    granted = node.role.grants(
        key,
        is_up_to_date=node.log.is_up_to_date(partition.last_offset_epoch, partition.last_offset),
        pre_vote=partition.pre_vote,
    )
    if granted and not partition.pre_vote:
        node.record_vote(key)
    return granted


def serve_begin_quorum_epoch(
    node: "RaftNode",
    token: int,
    request: begin_quorum_epoch.BeginQuorumEpochRequest,
    partition: begin_quorum_epoch.PartitionData,
) -> None:
    error = ErrorCode.NONE
    if not is_for(node, request.voter_id, partition.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    elif partition.leader_epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        node.adopt(partition.leader_epoch, partition.leader_id)
    leader_id, voters = node.told_leader_id, node.voters.latest
    node.reply(token, begin_quorum_epoch_response(node.me, error, leader_id, node.epoch, voters))


def serve_end_quorum_epoch(
    node: "RaftNode",
    token: int,
    request: end_quorum_epoch.EndQuorumEpochRequest,  # noqa: ARG001
    partition: end_quorum_epoch.PartitionData,
) -> None:
    error = ErrorCode.NONE
    if partition.leader_epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        node.adopt(partition.leader_epoch, partition.leader_id)
        node.role.on_leader_resigned(_delay_ms(node, partition))
    leader_id, voters = node.told_leader_id, node.voters.latest
    node.reply(token, end_quorum_epoch_response(node.me, error, leader_id, node.epoch, voters))


def _delay_ms(node: "RaftNode", partition: end_quorum_epoch.PartitionData) -> int:
    """The voter with the longest log goes first, the others one after the other behind it."""
    keys = [
        (replica.candidate_id, replica.candidate_directory_id)
        for replica in partition.preferred_candidates
    ]
    step_ms = max(1, node.settings.election_timeout_ms // 4)
    if node.me.key not in keys:
        return node.settings.election_timeout_ms
    return keys.index(node.me.key) * step_ms
