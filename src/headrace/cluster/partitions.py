"""Deciding on partitions: CreatePartitions.

Owns: `decide_create_partitions`. Pure, as all decisions.
Spec: Kafka's ReplicationControlManager.createPartitions, KIP-195.
"""

from collections import Counter

from headrace.base.limits import (
    PARTITIONS_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
)
from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.image import ClusterImage, TopicImage
from headrace.cluster.placement import leader_ring, place, start_of
from headrace.cluster.topics import (
    Assignments,
    assignment_refusal,
    candidates_for,
    partition_records,
    replication_refusal,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def decide_create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, context: DecisionContext
) -> tuple[Records, CreatePartitionsResponse]:
    records: Records = []
    results: list[CreatePartitionsTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    room = min(PARTITIONS_PER_REQUEST_MAX, PARTITIONS_MAX - image.partition_count)
    answered: set[str] = set()
    for wanted in request.topics:
        if wanted.name in answered:
            continue
        answered.add(wanted.name)
        outcome = _grow(image, wanted, counts[wanted.name], room, context)
        if isinstance(outcome, Refusal):
            results.append(
                CreatePartitionsTopicResult(
                    name=wanted.name, error_code=outcome.error, error_message=outcome.message
                )
            )
            continue
        room -= len(outcome)
        topic = image.topics_by_name[wanted.name]
        records += partition_records(image, topic.topic_id, len(topic.partitions), outcome)
        results.append(CreatePartitionsTopicResult(name=wanted.name, error_message=None))
    if request.validate_only:
        records = []
    return records, CreatePartitionsResponse(results=results)


def _grow(
    image: ClusterImage,
    wanted: CreatePartitionsTopic,
    times_named: int,
    room: int,
    context: DecisionContext,
) -> Assignments | Refusal:
    """The replicas of the partitions to add, or why they can't be added."""
    if times_named > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic = image.topics_by_name.get(wanted.name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Refusal(unknown, unknown.message)
    refusal = _count_refusal(topic, wanted.count, room)
    if refusal is not None:
        return refusal
    added = wanted.count - len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is not None:
        return _manual(image, wanted, added, factor)
    candidates = candidates_for(image)
    refusal = replication_refusal(candidates, factor)
    if refusal is not None:
        return refusal
    # Go on where the topic's last partition stands, so that leaders stay evenly spread.
    last = topic.partitions[-1].replicas[0]
    ring = leader_ring(candidates)
    ids = [candidate.broker_id for candidate in ring]
    if last in ids:
        start = ids.index(last) + 1
    else:
        start = start_of(ring, image.preferred_counts, context.random)
    return place(candidates, added, factor, start)


def _count_refusal(topic: TopicImage, count: int, room: int) -> Refusal | None:
    current = len(topic.partitions)
    if count == current:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if count < current:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{count} would not be an increase.",
        )
    if count > PARTITIONS_PER_TOPIC_MAX:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions {count} is above the {PARTITIONS_PER_TOPIC_MAX} "
            "that one topic may have.",
        )
    if count - current > room:
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"The request or the cluster would have too many partitions: room is left for {room}.",
        )
    return None


def _manual(
    image: ClusterImage,
    wanted: CreatePartitionsTopic,
    added: int,
    factor: int,
) -> Assignments | Refusal:
    given = wanted.assignments or []
    if len(given) != added:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} partition(s), but {len(given)} assignment(s) were given.",
        )
    assignments: Assignments = []
    for assignment in given:
        refusal = assignment_refusal(image, assignment.broker_ids, factor)
        if refusal is not None:
            return refusal
        assignments.append(tuple(assignment.broker_ids))
    return assignments
