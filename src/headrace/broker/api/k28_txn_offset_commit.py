"""TxnOffsetCommit (key 28), versions 0–5.

1 throttle time · 2 leader epochs, COORDINATOR_LOAD_IN_PROGRESS is understood · 3 flexible, the
member that reads (KIP-447) · 4 TRANSACTION_ABORTABLE · 5 adds the group to the transaction by
itself (KIP-890).
Missing: members of the consumer protocol (KIP-848).

Before version 5 the group must have been added by AddOffsetsToTxn; that is verified, or the
offsets would be pending for ever.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.commits import Committer, Outcomes
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.transactions.verification import (
    OFFSETS_ADD_SINCE,
    Verified,
    offset_commit_error,
)
from headrace.cluster.image import OFFSETS_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_LOADING = 2


def handle(
    broker: "Broker", request: TxnOffsetCommitRequest, context: RequestContext
) -> Promise[TxnOffsetCommitResponse]:
    version = context.api_version
    offsets = _offsets(broker, request)
    response: Promise[TxnOffsetCommitResponse] = Promise()

    def finish(outcomes: Outcomes) -> None:
        response.resolve(_response(request, version, outcomes))

    def on_verified(told: Promise[Verified]) -> None:
        (error,) = told.value().values()
        if error is not ErrorCode.NONE:
            finish(dict.fromkeys(offsets, offset_commit_error(error, version)))
            return
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id)
        broker.groups.commits.commit_in_transaction(
            request.group_id, committer, (request.producer_id, request.producer_epoch), offsets
        ).then(lambda done: finish(done.value()))

    def on_topic(created: Promise[int]) -> None:
        if created.error is not None or created.value():
            finish(dict.fromkeys(offsets, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        broker.verifier.ask(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))],
            adds=version >= OFFSETS_ADD_SINCE,
        ).then(on_verified)

    if not request.group_id:
        finish(dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID))
    elif not offsets:
        finish({})
    else:
        broker.groups.ensure_topic().then(on_topic)
    return response


def _offsets(
    broker: "Broker", request: TxnOffsetCommitRequest
) -> dict[TopicPartition, CommittedOffset]:
    """What may be committed: offsets of partitions that exist."""
    now_ms = broker.clock.now_ms()
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic in request.topics:
        image = broker.image.topics_by_name.get(topic.name)
        if image is None:
            continue
        for partition in topic.partitions:
            if 0 <= partition.partition_index < len(image.partitions):
                offsets[topic.name, partition.partition_index] = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp_ms=now_ms,
                    topic_id=image.topic_id,
                )
    return offsets


def _response(
    request: TxnOffsetCommitRequest, version: int, outcomes: Outcomes
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_told(
                            outcomes, (topic.name, partition.partition_index), version
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _told(outcomes: Outcomes, key: TopicPartition, version: int) -> int:
    error = outcomes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOADING:
        return int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return int(error)
