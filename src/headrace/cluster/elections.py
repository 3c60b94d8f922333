"""Deciding on elections that people ask for: ElectLeaders.

Owns: ElectLeaders (43), versions 0–2: 1 unclean elections (KIP-460). Pure.
Spec: KIP-183, KIP-460; Kafka's ReplicationControlManager.electLeaders.
"""

from collections.abc import Iterator

from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.draft import Draft
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.cluster.leadership import acceptance, isr_count_min
from headrace.cluster.partition_change import Election, change_partition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def decide_elect_leaders(
    image: ClusterImage, request: ElectLeadersRequest, context: DecisionContext
) -> tuple[Records, ElectLeadersResponse]:
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        return [], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    draft = Draft(image)
    is_all = request.topic_partitions is None
    results: list[ReplicaElectionResult] = []
    for name, indexes in _asked(image, request):
        outcomes = [
            (index, _elect(image, draft, name, index, election, context)) for index in indexes
        ]
        if is_all:
            # Asked for all, those that need none are left out.
            outcomes = [
                (index, refusal)
                for index, refusal in outcomes
                if refusal is None or refusal.error is not ErrorCode.ELECTION_NOT_NEEDED
            ]
        if outcomes or not is_all:
            results.append(
                ReplicaElectionResult(
                    topic=name,
                    partition_result=[_result(index, refusal) for index, refusal in outcomes],
                )
            )
    return draft.records, ElectLeadersResponse(replica_election_results=results)


def _asked(image: ClusterImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in image.topics_by_name.values():
            yield topic.name, list(range(len(topic.partitions)))
        return
    for asked in request.topic_partitions:
        yield asked.topic, asked.partitions


def _elect(
    image: ClusterImage,
    draft: Draft,
    name: str,
    index: int,
    election: Election,
    context: DecisionContext,
) -> Refusal | None:
    topic = image.topics_by_name.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    before = draft.partition(topic.topic_id, index)
    if before is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if before.leader == before.replicas[0] or (
        election is Election.UNCLEAN and before.leader != NO_LEADER
    ):
        return _refuse(ErrorCode.ELECTION_NOT_NEEDED)
    record = change_partition(
        topic.topic_id,
        before,
        before,
        acceptance(image, before),
        election,
        isr_count_min=isr_count_min(image, name, context),
    )
    if election is Election.PREFERRED and (record is None or record.leader != before.replicas[0]):
        return _refuse(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if record is None:
        return _refuse(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    draft.add(before, record)
    return None


def _refuse(error: ErrorCode) -> Refusal:
    return Refusal(error, error.message)


def _result(index: int, refusal: Refusal | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(
        partition_id=index, error_code=refusal.error, error_message=refusal.message
    )
