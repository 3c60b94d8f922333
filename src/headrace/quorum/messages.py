"""Kafka's quorum messages, made and read for the one partition of one quorum.

Owns: the nesting of topics and partitions, so that roles speak of the one partition they know.
Must not know: when a message is sent, or what an answer means.
Spec: Vote v2 (KIP-996), BeginQuorumEpoch and EndQuorumEpoch v1, Fetch v18 (KIP-595, KIP-1166),
FetchSnapshot v1 (KIP-630, KIP-853).
"""

from typing import Any

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.settings import Identity
from headrace.quorum.voters import Voter, VoterSet
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)

PARTITION = 0
NONE = int(ErrorCode.NONE)
HIGH_WATERMARK_UNKNOWN = 2**63 - 1


# -- requests --------------------------------------------------------------------------------


def vote_request(
    me: Identity, voter: ReplicaKey, epoch: int, log: LogView, *, pre_vote: bool
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        replica_epoch=epoch,
        replica_id=me.node_id,
        replica_directory_id=me.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=log.last_epoch,
        last_offset=log.end_offset,
        pre_vote=pre_vote,
    )
    topic = vote.TopicData(topic_name=me.topic_name, partitions=[partition])
    return vote.VoteRequest(cluster_id=me.cluster_id, voter_id=voter.id, topics=[topic])


def begin_quorum_epoch_request(
    me: Identity, voter: ReplicaKey, epoch: int, self_as_voter: Voter | None
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.PartitionData(
        voter_directory_id=voter.directory_id, leader_id=me.node_id, leader_epoch=epoch
    )
    topic = begin_quorum_epoch.TopicData(topic_name=me.topic_name, partitions=[partition])
    endpoints = self_as_voter.endpoints if self_as_voter else ()
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=me.cluster_id,
        voter_id=voter.id,
        topics=[topic],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=e.name, host=e.host, port=e.port)
            for e in endpoints
        ],
    )


def end_quorum_epoch_request(
    me: Identity, epoch: int, preferred: list[ReplicaKey]
) -> end_quorum_epoch.EndQuorumEpochRequest:
    candidates = [
        end_quorum_epoch.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
        for key in preferred
    ]
    partition = end_quorum_epoch.PartitionData(
        leader_id=me.node_id, leader_epoch=epoch, preferred_candidates=candidates
    )
    topic = end_quorum_epoch.TopicData(topic_name=me.topic_name, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=me.cluster_id, topics=[topic])


def fetch_request(
    me: Identity, epoch: int, log: LogView, high_watermark: int, max_wait_ms: int, bytes_max: int
) -> fetch.FetchRequest:
    """Says at once: everything before `fetch_offset` is durable here."""
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        log_start_offset=log.start_offset,
        partition_max_bytes=bytes_max,
        replica_directory_id=me.directory_id,
        high_watermark=high_watermark,
    )
    topic = fetch.FetchTopic(topic=me.topic_name, topic_id=me.topic_id, partitions=[partition])
    return fetch.FetchRequest(
        cluster_id=me.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=me.node_id),
        max_wait_ms=max_wait_ms,
        max_bytes=bytes_max,
        topics=[topic],
    )


def fetch_snapshot_request(
    me: Identity, epoch: int, snapshot_id: SnapshotId, position: int, bytes_max: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=position,
        replica_directory_id=me.directory_id,
    )
    topic = fetch_snapshot.TopicSnapshot(name=me.topic_name, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=me.cluster_id, replica_id=me.node_id, max_bytes=bytes_max, topics=[topic]
    )


# -- responses -------------------------------------------------------------------------------


def vote_response(
    me: Identity, error: int, leader_id: int, epoch: int, granted: bool, voters: VoterSet
) -> vote.VoteResponse:
    partition = vote.VoteResponsePartitionData(
        error_code=error, leader_id=leader_id, leader_epoch=epoch, vote_granted=granted
    )
    topic = vote.VoteResponseTopicData(topic_name=me.topic_name, partitions=[partition])
    nodes = [
        vote.NodeEndpoint(node_id=leader_id, host=e.host, port=e.port)
        for e in _endpoints_of(voters, leader_id)
    ]
    return vote.VoteResponse(topics=[topic], node_endpoints=nodes)


def begin_quorum_epoch_response(
    me: Identity, error: int, leader_id: int, epoch: int, voters: VoterSet
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(
        topic_name=me.topic_name, partitions=[partition]
    )
    nodes = [
        begin_quorum_epoch.NodeEndpoint(node_id=leader_id, host=e.host, port=e.port)
        for e in _endpoints_of(voters, leader_id)
    ]
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic], node_endpoints=nodes)


def end_quorum_epoch_response(
    me: Identity, error: int, leader_id: int, epoch: int, voters: VoterSet
) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(
        topic_name=me.topic_name, partitions=[partition]
    )
    nodes = [
        end_quorum_epoch.NodeEndpoint(node_id=leader_id, host=e.host, port=e.port)
        for e in _endpoints_of(voters, leader_id)
    ]
    return end_quorum_epoch.EndQuorumEpochResponse(topics=[topic], node_endpoints=nodes)


def fetch_response(
    me: Identity, partition: fetch.PartitionData, voters: VoterSet | None = None
) -> fetch.FetchResponse:
    """With `voters`, the answer also tells where the leader it names listens."""
    topic = fetch.FetchableTopicResponse(
        topic=me.topic_name, topic_id=me.topic_id, partitions=[partition]
    )
    leader_id = partition.current_leader.leader_id
    nodes = [
        fetch.NodeEndpoint(node_id=leader_id, host=e.host, port=e.port)
        for e in (_endpoints_of(voters, leader_id) if voters else ())
    ]
    return fetch.FetchResponse(responses=[topic], node_endpoints=nodes)


def fetch_error(
    me: Identity, error: int, leader_id: int, epoch: int, voters: VoterSet
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        error_code=error,
        high_watermark=-1,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
    )
    return fetch_response(me, partition, voters)


def fetch_snapshot_response(
    me: Identity,
    error: int,
    leader_id: int,
    epoch: int,
    snapshot_id: SnapshotId,
    size_bytes: int = 0,
    position: int = 0,
    voters: VoterSet | None = None,
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=size_bytes,
        position=position,
        unaligned_records=b"",
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(
        name=me.topic_name, partitions=[partition]
    )
    nodes = [
        fetch_snapshot.NodeEndpoint(node_id=leader_id, host=e.host, port=e.port)
        for e in (_endpoints_of(voters, leader_id) if voters else ())
    ]
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic], node_endpoints=nodes)


def refusal(message: Message, error: int) -> Message | None:
    """The answer to a request that does not fit this quorum at all."""
    match message:
        case vote.VoteRequest():
            return vote.VoteResponse(error_code=error)
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=error)
        case end_quorum_epoch.EndQuorumEpochRequest():
            return end_quorum_epoch.EndQuorumEpochResponse(error_code=error)
        case fetch.FetchRequest():
            return fetch.FetchResponse(error_code=error)
        case fetch_snapshot.FetchSnapshotRequest():
            return fetch_snapshot.FetchSnapshotResponse(error_code=error)
    return None


def _endpoints_of(voters: VoterSet, node_id: int) -> list[fetch.NodeEndpoint]:
    voter = voters.with_id(node_id)
    if voter is None:
        return []
    return [fetch.NodeEndpoint(host=e.host, port=e.port) for e in voter.endpoints[:1]]


# -- reading ---------------------------------------------------------------------------------


def is_of_quorum(me: Identity, topic: Any) -> bool:
    """Is a request about this quorum's one partition? Newer fetches name the topic by its id."""
    match topic:
        case fetch.FetchTopic():
            is_named = topic.topic_id == me.topic_id or topic.topic == me.topic_name
            return is_named and topic.partitions[0].partition == PARTITION
        case fetch_snapshot.TopicSnapshot():
            return topic.name == me.topic_name and topic.partitions[0].partition == PARTITION
    is_named = bool(topic.topic_name == me.topic_name)
    return is_named and bool(topic.partitions[0].partition_index == PARTITION)


def leader_of_response(message: Message) -> tuple[int, int] | None:
    """Epoch and leader that an answer tells of, or None if it tells nothing."""
    match message:
        case fetch.FetchResponse(responses=[topic]) if topic.partitions:
            leader = topic.partitions[0].current_leader
            return leader.leader_epoch, leader.leader_id
        case fetch_snapshot.FetchSnapshotResponse(topics=[answer]) if answer.partitions:
            current = answer.partitions[0].current_leader
            return current.leader_epoch, current.leader_id
        case (
            vote.VoteResponse(topics=[told])
            | begin_quorum_epoch.BeginQuorumEpochResponse(topics=[told])
            | end_quorum_epoch.EndQuorumEpochResponse(topics=[told])
        ) if told.partitions:
            return told.partitions[0].leader_epoch, told.partitions[0].leader_id
    return None
