"""Deciding on log directories: which replica lies in which, and what a lost one takes along.

Owns: AssignReplicasToDirs (73) and the directories that a heartbeat reports as lost. Pure.
Spec: KIP-858; Kafka's ReplicationControlManager.

A replica whose directory is lost can't lead and leaves the ISR, as if its broker were fenced for
this partition alone. A replica whose directory is not known is taken to be online.
"""

from dataclasses import replace

from headrace.cluster.broker_epochs import broker_refusal
from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.draft import Draft
from headrace.cluster.image import BrokerImage, ClusterImage, PartitionImage
from headrace.cluster.leadership import (
    acceptance,
    changes_at_leaving,
    election_for,
    isr_count_min,
)
from headrace.cluster.partition_change import change_partition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from headrace.wire.kafka.messages.metadata_records import BrokerRegistrationChangeRecord


def changes_at_lost_directories(
    image: ClusterImage, broker: BrokerImage, lost: set[bytes], context: DecisionContext
) -> Records:
    partitions = (
        (topic, partition)
        for topic, partition in image.partitions()
        if partition.directory_of(broker.broker_id) in lost
        and broker.broker_id in partition.isr + partition.eligible_leader_replicas
    )
    records = changes_at_leaving(image, broker.broker_id, context, partitions, is_lossy=True)
    remaining = [directory for directory in broker.log_dirs if directory not in lost]
    if remaining:
        # The record can't say "none": a broker without a directory is about to stop.
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=remaining
            )
        )
    return records


def decide_assign_replicas_to_dirs(
    image: ClusterImage, request: AssignReplicasToDirsRequest, context: DecisionContext
) -> tuple[Records, AssignReplicasToDirsResponse]:
    error = broker_refusal(image, request.broker_id, request.broker_epoch)
    if error is not None:
        return [], AssignReplicasToDirsResponse(error_code=error)
    draft = Draft(image)
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        topics = [
            AssignReplicasToDirsResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=_assign(
                            image,
                            draft,
                            (bytes(topic.topic_id), partition.partition_index),
                            (request.broker_id, bytes(directory.id)),
                            context,
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        response.directories.append(
            AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics)
        )
    return draft.records, response


def _assign(
    image: ClusterImage,
    draft: Draft,
    topic_partition: tuple[bytes, int],
    place: tuple[int, bytes],
    context: DecisionContext,
) -> ErrorCode:
    topic_id, index = topic_partition
    broker_id, directory = place
    if topic_id not in image.topics_by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    before = draft.partition(topic_id, index)
    if before is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in before.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    name = image.topics_by_id[topic_id].name
    target = replace(before, directories=_with_directory(before, broker_id, directory))
    broker = image.brokers[broker_id]
    # From a directory that is gone to another it did not move: it begins anew there.
    is_lost = not broker.has_online(directory) or not broker.has_online(
        before.directory_of(broker_id)
    )
    if is_lost:
        isr = tuple(replica for replica in before.isr if replica != broker_id)
        target = replace(target, isr=isr)
    record = change_partition(
        topic_id,
        before,
        target,
        acceptance(image, target),
        election_for(image, name, context),
        isr_count_min=isr_count_min(image, name, context),
        lossy=broker_id if is_lost else None,
    )
    draft.add(before, record)
    return ErrorCode.NONE


def _with_directory(
    partition: PartitionImage, broker_id: int, directory: bytes
) -> tuple[bytes, ...]:
    return tuple(
        directory if replica == broker_id else partition.directory_of(replica)
        for replica in partition.replicas
    )
