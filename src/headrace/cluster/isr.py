"""Deciding on the in-sync replicas: AlterPartition, which a partition's leader asks for.

Owns: AlterPartition (56), versions 2–3: 3 broker epochs of the new ISR (KIP-903). Pure.
Spec: KIP-497, KIP-704, KIP-841, KIP-903; Kafka's ReplicationControlManager.alterPartition.

A leader of an older epoch, a broker that was registered anew, and an ISR that was decided on an
older partition are all refused: whoever asks must know the newest state. The code tells what it
missed.
"""

from dataclasses import replace

from headrace.cluster.broker_epochs import ANY_EPOCH, broker_refusal
from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.draft import Draft
from headrace.cluster.image import LEADER_UNCHANGED, ClusterImage, PartitionImage
from headrace.cluster.leadership import acceptance, election_for, isr_count_min
from headrace.cluster.partition_change import change_partition
from headrace.cluster.registrations import RECOVERED, RECOVERING
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
    PartitionData,
)


def decide_alter_partition(
    image: ClusterImage, request: AlterPartitionRequest, context: DecisionContext
) -> tuple[Records, AlterPartitionResponse]:
    error = broker_refusal(image, request.broker_id, request.broker_epoch)
    if error is not None:
        return [], AlterPartitionResponse(error_code=error)
    draft = Draft(image)
    topics = []
    for topic in request.topics:
        topic_id = bytes(topic.topic_id)
        answers = [
            _alter(image, draft, topic_id, request.broker_id, wanted, context)
            for wanted in topic.partitions
        ]
        topics.append(AlterPartitionResponseTopicData(topic_id=topic_id, partitions=answers))
    return draft.records, AlterPartitionResponse(topics=topics)


def _alter(
    image: ClusterImage,
    draft: Draft,
    topic_id: bytes,
    broker_id: int,
    wanted: PartitionData,
    context: DecisionContext,
) -> AlterPartitionResponsePartitionData:
    index = wanted.partition_index
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
    before = draft.partition(topic_id, index)
    if before is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    new_isr = _new_isr(wanted, context.api_version)
    error = (
        _epoch_refusal(before, broker_id, wanted)
        or _isr_refusal(before, new_isr, wanted)
        or _eligibility_refusal(image, before, new_isr)
    )
    if error is not None:
        return _refused(index, error)
    target = replace(
        before,
        isr=tuple(state.broker_id for state in new_isr),
        leader_recovery_state=wanted.leader_recovery_state,
    )
    record = change_partition(
        topic_id,
        before,
        target,
        acceptance(image, before),
        election_for(image, topic.name, context),
        isr_count_min=isr_count_min(image, topic.name, context),
    )
    after = draft.add(before, record)
    if record is not None and record.leader not in (LEADER_UNCHANGED, broker_id):
        # The last step of a reassignment took the leader away: done, and it must hear of it.
        return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def _new_isr(wanted: PartitionData, api_version: int) -> list[BrokerState]:
    if api_version >= 3:
        return wanted.new_isr_with_epochs
    return [BrokerState(broker_id=broker_id) for broker_id in wanted.new_isr]


def _epoch_refusal(
    before: PartitionImage, broker_id: int, wanted: PartitionData
) -> ErrorCode | None:
    # Who has seen more than this node's state has seen another controller.
    if wanted.leader_epoch > before.leader_epoch or wanted.partition_epoch > before.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < before.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != before.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < before.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def _isr_refusal(
    before: PartitionImage, new_isr: list[BrokerState], wanted: PartitionData
) -> ErrorCode | None:
    members = [state.broker_id for state in new_isr]
    is_set_of_replicas = len(set(members)) == len(members) and set(members) <= set(before.replicas)
    if not is_set_of_replicas or before.leader not in members:
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state == RECOVERING and (
        len(members) > 1 or before.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    return None


def _eligibility_refusal(
    image: ClusterImage, before: PartitionImage, new_isr: list[BrokerState]
) -> ErrorCode | None:
    """A member that is fenced, stopping, or another incarnation than the leader has seen; or whose
    directory of this partition is lost."""
    for state in new_isr:
        broker = image.brokers.get(state.broker_id)
        if broker is None or not broker.is_usable:
            return ErrorCode.INELIGIBLE_REPLICA
        if not broker.has_online(before.directory_of(state.broker_id)):
            return ErrorCode.INELIGIBLE_REPLICA
        if state.broker_epoch not in (ANY_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return None


def _refused(index: int, error: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=index, error_code=error)
