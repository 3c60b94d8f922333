"""Deciding on topics that go: DeleteTopics.

Owns: DeleteTopics (20), versions 1–6: 6 topics by their ids (KIP-516). Pure.
Spec: Kafka's ReplicationControlManager for codes.
"""

from collections import Counter
from collections.abc import Sequence

from headrace.base.ids import NO_TOPIC_ID
from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.kafka.messages.metadata_records import RemoveTopicRecord


def decide_delete_topics(
    image: ClusterImage, request: DeleteTopicsRequest, context: DecisionContext
) -> tuple[Records, DeleteTopicsResponse]:
    named = [DeleteTopicState(name=name) for name in request.topic_names]
    states = request.topics if context.api_version >= 6 else named
    if not context.config["delete.topic.enable"]:
        return [], DeleteTopicsResponse(responses=_deletion_disabled(states, context.api_version))
    counts = Counter(_deletion_key(image, state) for state in states)
    records: Records = []
    results: list[DeletableTopicResult] = []
    answered: set[object] = set()
    for state in states:
        key = _deletion_key(image, state)
        if key in answered:
            continue
        answered.add(key)
        refusal = _deletion_refusal(image, state, counts[key])
        if refusal is not None:
            results.append(_not_deleted(state, refusal))
            continue
        topic = (
            image.topics_by_id[bytes(state.topic_id)]
            if state.name is None
            else image.topics_by_name[state.name]
        )
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id))
    return records, DeleteTopicsResponse(responses=results)


def _deletion_key(image: ClusterImage, state: DeleteTopicState) -> object:
    """What a deletion is about: the same topic by name and by id is the same."""
    if state.name is not None:
        topic = image.topics_by_name.get(state.name)
        return state.name if topic is None else topic.topic_id
    return bytes(state.topic_id)


def _deletion_refusal(image: ClusterImage, state: DeleteTopicState, count: int) -> Refusal | None:
    has_id = bytes(state.topic_id) != NO_TOPIC_ID
    if state.name is not None and has_id:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if state.name is None and not has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if count > 1:
        what = "topic id" if state.name is None else "topic name"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate {what}.")
    if state.name is None and bytes(state.topic_id) not in image.topics_by_id:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message)
    if state.name is not None and state.name not in image.topics_by_name:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        )
    return None


def _not_deleted(state: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=refusal.error,
        error_message=refusal.message,
    )


def _deletion_disabled(
    states: Sequence[DeleteTopicState], api_version: int
) -> list[DeletableTopicResult]:
    # Error 73 came with version 3; older clients would not know it.
    error = ErrorCode.TOPIC_DELETION_DISABLED if api_version >= 3 else ErrorCode.INVALID_REQUEST
    refusal = Refusal(error, "Topic deletion is disabled: delete.topic.enable is false.")
    return [_not_deleted(state, refusal) for state in states]
