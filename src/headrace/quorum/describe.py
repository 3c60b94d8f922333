"""A leader's answer to DescribeQuorum.

Owns: its form, and that its times are the wall clock's: people read them.
"""

from typing import TYPE_CHECKING

from headrace.quorum import replies
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.settings import Identity
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import describe_quorum

if TYPE_CHECKING:
    from headrace.quorum.roles.leader import Leader

NEVER_MS = -1
OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer that has not fetched for so long is not told of, as in Kafka."""


def describe(
    leader: "Leader", request: describe_quorum.DescribeQuorumRequest
) -> describe_quorum.DescribeQuorumResponse:
    node = leader.node
    if not _is_about(node.me, request):
        return replies.describe_error(node, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    voters = node.voters.latest
    since_ms = node.now_ms - OBSERVER_SESSION_TIMEOUT_MS
    partition = describe_quorum.DescribeQuorumResponsePartitionData(
        leader_id=node.me.node_id,
        leader_epoch=node.epoch,
        high_watermark=node.high_watermark,
        current_voters=[_state(leader, key) for key in voters.keys],
        observers=[_state(leader, key) for key in leader.progress.observers(voters, since_ms)],
    )
    topic = describe_quorum.DescribeQuorumResponseTopicData(
        topic_name=node.me.topic_name, partitions=[partition]
    )
    nodes = [
        describe_quorum.Node(
            node_id=voter.key.id,
            listeners=[
                describe_quorum.Listener(name=e.name, host=e.host, port=e.port)
                for e in voter.endpoints
            ],
        )
        for voter in voters
    ]
    return describe_quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)


def _is_about(me: Identity, request: describe_quorum.DescribeQuorumRequest) -> bool:
    """The one partition of this quorum, by name."""
    asked = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics]
    return asked == [(me.topic_name, [0])]


def _state(leader: "Leader", key: ReplicaKey) -> describe_quorum.ReplicaState:
    node, progress = leader.node, leader.progress.of(key)
    if key == node.me.key:
        end_offset, fetch_ms, caught_up_ms = node.log.end_offset, node.now_ms, node.now_ms
    else:
        has_fetched = leader.progress.has_fetched(key)
        end_offset, caught_up_ms = progress.end_offset, progress.last_caught_up_ms
        fetch_ms = progress.last_fetch_ms if has_fetched else NEVER_MS
    return describe_quorum.ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=_on_the_wall(leader, fetch_ms),
        last_caught_up_timestamp=_on_the_wall(leader, caught_up_ms),
    )


def _on_the_wall(leader: "Leader", moment_ms: int) -> int:
    return NEVER_MS if moment_ms == NEVER_MS else moment_ms + leader.node.wall_offset_ms
