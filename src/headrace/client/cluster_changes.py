"""What operators change in a cluster: replicas, throttles, cordons, leaders, registrations.

Owns: one function an operation, each a request. Must not know: why (`rebalance`), how it is shown.
Throttles are set as Kafka's own tool sets them, so that either tool clears what the other left.
"""

from collections.abc import Iterable, Mapping, Sequence

from headrace.client.admin import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    alter_configs,
    alter_topic_configs,
)
from headrace.client.cluster import Cluster
from headrace.client.cluster_state import ClusterState, describe_brokers
from headrace.client.errors import ClientError, ServerError, Unreachable, raise_for
from headrace.client.replica_plan import Key, Move
from headrace.client.retry import attempts
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from headrace.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
CORDONED = "cordoned.log.dirs"
PREFERRED, UNCLEAN = 0, 1
CORDON_WAIT_MS = 10_000
_DYNAMIC_BROKER_CONFIG = 2
"""Where a value comes from, in an answer: set for this one broker while it runs."""


# Replicas.


def reassign(cluster: Cluster, targets: Mapping[Key, Sequence[int] | None]) -> None:
    """The replicas that partitions shall have; None ends the move that is under way."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.request_timeout_ms,
        allow_replication_factor_change=False,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=index,
                        replicas=None if replicas is None else list(replicas),
                    )
                    for (name, index), replicas in targets.items()
                    if name == topic
                ],
            )
            for topic in sorted({topic for topic, _ in targets})
        ],
    )
    response = cluster.call(request, AlterPartitionReassignmentsResponse)
    raise_for(response.error_code, "move partitions", response.error_message)
    for told in response.responses:
        for part in told.partitions:
            is_cancelled = targets[told.name, part.partition_index] is None
            if is_cancelled and part.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                continue  # it has just ended by itself
            doing = f"move {told.name}-{part.partition_index}"
            raise_for(part.error_code, doing, part.error_message)


# Throttles.


def throttle(cluster: Cluster, moves: Iterable[Move], brokers: Iterable[int], rate: int) -> None:
    """No more than `rate` bytes a second, on each broker and each side, for these moves."""
    leading: dict[str, list[str]] = {}
    following: dict[str, list[str]] = {}
    for move in moves:
        if move.adding:
            pairs = leading.setdefault(move.topic, [])
            pairs += [f"{move.index}:{each}" for each in move.before]
            pairs = following.setdefault(move.topic, [])
            pairs += [f"{move.index}:{each}" for each in move.adding]
    for topic, pairs in leading.items():
        replicas = {LEADER_REPLICAS: ",".join(pairs), FOLLOWER_REPLICAS: ",".join(following[topic])}
        alter_topic_configs(cluster, topic, replicas)
    for broker_id in brokers:
        rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        alter_configs(cluster, BROKER_RESOURCE, str(broker_id), rates)


def unthrottle(cluster: Cluster, topics: Iterable[str], brokers: Iterable[int]) -> None:
    for topic in topics:
        try:
            alter_topic_configs(cluster, topic, {}, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    for broker_id in brokers:
        alter_configs(cluster, BROKER_RESOURCE, str(broker_id), {}, (LEADER_RATE, FOLLOWER_RATE))


def throttled_brokers(cluster: Cluster, brokers: Iterable[int]) -> list[int]:
    """Those that have a rate of their own; each is asked itself, and skipped if it is down."""
    found = []
    for broker_id in brokers:
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE,
            resource_name=str(broker_id),
            configuration_keys=[LEADER_RATE, FOLLOWER_RATE],
        )
        try:
            connection = cluster.connection_to_node(broker_id)
            told = connection.call(
                DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
            )
        except Unreachable:
            continue
        sources = [config.config_source for each in told.results for config in each.configs]
        if _DYNAMIC_BROKER_CONFIG in sources:
            found.append(broker_id)
    return found


def throttled_topics(cluster: Cluster, topics: Iterable[str]) -> set[str]:
    """Those with single replicas throttled, as for a move. `*` is a rule of somebody's."""
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=topic,
            configuration_keys=[LEADER_REPLICAS, FOLLOWER_REPLICAS],
        )
        for topic in sorted(topics)
    ]
    if not resources:
        return set()
    told = cluster.call(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    return {
        each.resource_name
        for each in told.results
        if any(":" in (config.value or "") for config in each.configs)
    }


# Cordons.


def cordon(cluster: Cluster, broker_id: int) -> bool:
    """The broker gets no new replicas; False if it is down and will say so when it starts."""
    alter_configs(cluster, BROKER_RESOURCE, str(broker_id), {CORDONED: "*"})
    return _await_cordon(cluster, broker_id, wanted=True)


def uncordon(cluster: Cluster, broker_id: int) -> bool:
    alter_configs(cluster, BROKER_RESOURCE, str(broker_id), {}, (CORDONED,))
    try:
        return _await_cordon(cluster, broker_id, wanted=False, timeout_ms=CORDON_WAIT_MS // 5)
    except ClientError:
        # Its own file cordons it: an empty list goes before that.
        alter_configs(cluster, BROKER_RESOURCE, str(broker_id), {CORDONED: ""})
        return _await_cordon(cluster, broker_id, wanted=False)


def _await_cordon(
    cluster: Cluster, broker_id: int, *, wanted: bool, timeout_ms: int = CORDON_WAIT_MS
) -> bool:
    """Until the controller has heard of it from the broker."""
    for _ in attempts(timeout_ms):
        broker = next(b for b in describe_brokers(cluster) if b.broker_id == broker_id)
        if broker.is_fenced:
            return False
        if broker.log_dirs and broker.is_cordoned == wanted:
            return True
    what = "cordoned" if wanted else "free"
    raise ClientError(f"broker {broker_id} was told, and is not {what} after {timeout_ms} ms")


# Leaders.


def elect_leaders(
    cluster: Cluster, keys: Iterable[Key] | None = None, election_type: int = PREFERRED
) -> tuple[list[Key], dict[Key, str]]:
    """Those that have another leader now, and why others have not; None asks for all."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in keys or ():
        by_topic.setdefault(topic, []).append(index)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if keys is None
        else [TopicPartitions(topic=name, partitions=ps) for name, ps in by_topic.items()],
        timeout_ms=cluster.request_timeout_ms,
    )
    response = cluster.call(request, ElectLeadersResponse)
    raise_for(response.error_code, "elect leaders")
    elected: list[Key] = []
    failed: dict[Key, str] = {}
    for told in response.replica_election_results:
        for part in told.partition_result:
            key = (told.topic, part.partition_id)
            if not part.error_code:
                elected.append(key)
            elif part.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                code = ErrorCode.of(part.error_code)
                failed[key] = part.error_message or code.message
    return elected, failed


# Registrations.


def unregister(cluster: Cluster, state: ClusterState, broker_id: int, *, force: bool) -> None:
    """Forget a broker that is stopped and empty; `force`: also one that is not empty."""
    broker = state.broker(broker_id)
    if not broker.is_fenced:
        raise ClientError(
            f"broker {broker_id} runs: stop it first, or it would register again at once"
        )
    left = [part.key for part in state.partitions if broker_id in part.replicas]
    if left and not force:
        topic, index = left[0]
        raise ClientError(
            f"broker {broker_id} has {len(left)} replicas, such as {topic}-{index}: "
            f"`headrace cluster decommission {broker_id} --apply` moves them away"
        )
    alter_configs(
        cluster, BROKER_RESOURCE, str(broker_id), {}, (CORDONED, LEADER_RATE, FOLLOWER_RATE)
    )
    response = cluster.call(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    raise_for(response.error_code, f"unregister broker {broker_id}", response.error_message)
