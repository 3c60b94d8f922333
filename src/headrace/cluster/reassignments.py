"""Deciding on moves of partitions: AlterPartitionReassignments and ListPartitionReassignments.

Owns: AlterPartitionReassignments (45), versions 0–1: 1 may forbid another replication factor
(KIP-860); ListPartitionReassignments (46), version 0. Pure.
Spec: KIP-455; Kafka's ReplicationControlManager and PartitionReassignmentReplicas.

A move in three steps:
1. the record made here: the new replicas come before the old ones, `adding_replicas` and
   `removing_replicas` name the difference;
2. the new replicas catch up, and the leader takes them into the ISR (AlterPartition);
3. with the last of them the old ones leave, in the same decision (`cluster.partition_change`).
A move that adds nothing and keeps a member of the ISR is done at once.
Cancelling takes the new replicas out again.
"""

from dataclasses import replace

from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.draft import Draft
from headrace.cluster.image import ClusterImage, PartitionImage, TopicImage
from headrace.cluster.leadership import acceptance, election_for, is_unclean_enabled, isr_count_min
from headrace.cluster.partition_change import change_partition, directories_for
from headrace.cluster.placement import manual_refusal
from headrace.cluster.topics import cordon_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord


def decide_alter_partition_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest, context: DecisionContext
) -> tuple[Records, AlterPartitionReassignmentsResponse]:
    draft = Draft(image)
    may_change_factor = context.api_version < 1 or request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=may_change_factor
    )
    for topic in request.topics:
        outcomes = [
            (
                wanted.partition_index,
                _alter(image, draft, topic.name, wanted, context, may_change_factor),
            )
            for wanted in topic.partitions
        ]
        response.responses.append(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_result(index, refusal) for index, refusal in outcomes],
            )
        )
    return draft.records, response


def _alter(
    image: ClusterImage,
    draft: Draft,
    name: str,
    wanted: ReassignablePartition,
    context: DecisionContext,
    may_change_factor: bool,
) -> Refusal | None:
    topic = image.topics_by_name.get(name)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    before = draft.partition(topic.topic_id, wanted.partition_index)
    if before is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{wanted.partition_index}.",
        )
    if wanted.replicas is None:
        outcome = _cancel(image, topic, before, context)
    else:
        refusal = _target_refusal(image, before, wanted.replicas, may_change_factor)
        outcome = refusal or _move(image, topic, before, tuple(wanted.replicas), context)
    if isinstance(outcome, Refusal):
        return outcome
    draft.add(before, outcome)
    return None


def _original_replicas(partition: PartitionImage) -> tuple[int, ...]:
    """Those it had before the move that is under way."""
    return tuple(each for each in partition.replicas if each not in partition.adding_replicas)


def _target_refusal(
    image: ClusterImage,
    before: PartitionImage,
    replicas: list[int],
    may_change_factor: bool,
) -> Refusal | None:
    reason = manual_refusal(replicas, list(image.brokers), len(replicas))
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    reason = cordon_refusal(image, set(replicas) - set(before.replicas))
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    factor = len(_original_replicas(before))
    if not may_change_factor and len(replicas) != factor:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(replicas)}",
        )
    return None


def _move(
    image: ClusterImage,
    topic: TopicImage,
    before: PartitionImage,
    wanted: tuple[int, ...],
    context: DecisionContext,
) -> PartitionChangeRecord | None:
    # A second move replaces the first: what that one was adding, and this one does not want,
    # leaves at once, unless it is all that is in sync.
    original = _original_replicas(before)
    dropped = set(before.adding_replicas) - set(wanted)
    isr = tuple(replica for replica in before.isr if replica not in dropped)
    kept = set(original) if isr else set(before.replicas)
    removing = tuple(sorted(kept - set(wanted)))
    replicas = wanted + removing
    target = replace(
        before,
        replicas=replicas,
        isr=isr or before.isr,
        adding_replicas=tuple(sorted(set(wanted) - set(original))),
        removing_replicas=removing,
        directories=directories_for(before, replicas),
    )
    return change_partition(
        topic.topic_id,
        before,
        target,
        acceptance(image, before),
        isr_count_min=isr_count_min(image, topic.name, context),
    )


def _cancel(
    image: ClusterImage, topic: TopicImage, before: PartitionImage, context: DecisionContext
) -> PartitionChangeRecord | Refusal | None:
    if not before.is_moving:
        none = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return Refusal(none, none.message)
    replicas = _original_replicas(before)
    isr = tuple(replica for replica in before.isr if replica not in before.adding_replicas)
    if not isr and not is_unclean_enabled(image, topic.name, context):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{before.index} because it "
            "would require an unclean leader election.",
        )
    target = replace(
        before,
        replicas=replicas,
        isr=isr or replicas[:1],
        adding_replicas=(),
        removing_replicas=(),
        directories=directories_for(before, replicas),
    )
    return change_partition(
        topic.topic_id,
        before,
        target,
        acceptance(image, before),
        election_for(image, topic.name, context),
        isr_count_min=isr_count_min(image, topic.name, context),
    )


def _result(index: int, refusal: Refusal | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=refusal.error, error_message=refusal.message
    )


# What is under way.


def decide_list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest, _context: DecisionContext
) -> tuple[Records, ListPartitionReassignmentsResponse]:
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        asked = [
            (topic.name, list(range(len(topic.partitions))))
            for topic in image.topics_by_name.values()
        ]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
    for name, indexes in asked:
        topic = image.topics_by_name.get(name)
        if topic is None:
            continue
        moving = [
            topic.partitions[index]
            for index in indexes
            if 0 <= index < len(topic.partitions) and topic.partitions[index].is_moving
        ]
        if moving:
            response.topics.append(
                OngoingTopicReassignment(name=name, partitions=[_ongoing(each) for each in moving])
            )
    return [], response


def _ongoing(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
