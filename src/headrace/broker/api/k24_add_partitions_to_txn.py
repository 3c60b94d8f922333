"""AddPartitionsToTxn (key 24), versions 0–5.

0–3 from clients of the old transaction protocol: one transaction · 1 throttle time · 2
PRODUCER_FENCED · 3 flexible · 4 from brokers: several transactions, `verify_only` (KIP-890) · 5
TRANSACTION_ABORTABLE for a partition that is not in the transaction.
Missing: nothing.

A partition that does not exist spoils the whole transaction's question: the others are
OPERATION_NOT_ATTEMPTED.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.transactions.metadata import (
    VERSION_EPOCH_BUMP,
    VERSION_OLD,
    TopicPartition,
)
from headrace.cluster.image import INTERNAL_TOPICS
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_VERSION_OF_BROKERS = 4
FIRST_VERSION_WITH_ABORTABLE = 5

Outcomes = dict[TopicPartition, ErrorCode]


def handle(
    broker: "Broker", request: AddPartitionsToTxnRequest, context: RequestContext
) -> Promise[AddPartitionsToTxnResponse]:
    version = context.api_version
    if version < FIRST_VERSION_OF_BROKERS:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return _ask(broker, only, version).map(
            lambda outcomes: AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=_topics(outcomes)
            )
        )
    response: Promise[AddPartitionsToTxnResponse] = Promise()
    results: list[AddPartitionsToTxnResult] = []
    waiting = len(request.transactions)
    if not waiting:
        response.resolve(AddPartitionsToTxnResponse())

    def on_one(result: AddPartitionsToTxnResult, told: Promise[Outcomes]) -> None:
        nonlocal waiting
        result.topic_results = _topics(told.value())
        waiting -= 1
        if waiting == 0:
            response.resolve(AddPartitionsToTxnResponse(results_by_transaction=results))

    for transaction in request.transactions:
        result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id)
        results.append(result)
    for transaction, result in zip(request.transactions, results, strict=True):
        _ask(broker, transaction, version).then(
            lambda told, result=result: on_one(result, told)  # type: ignore[misc]
        )
    return response


def _ask(
    broker: "Broker", transaction: AddPartitionsToTxnTransaction, version: int
) -> Promise[Outcomes]:
    keys = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused = {key: error for key in keys if (error := _refusal(broker, key, version)) is not None}
    if refused:
        return Promise.resolved(dict.fromkeys(keys, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
    coordinator = broker.transactions
    if transaction.verify_only:
        verified = coordinator.verify_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            keys,
        )
        return Promise.resolved({key: _told(error, version) for key, error in verified.items()})
    is_client = version < FIRST_VERSION_OF_BROKERS
    return coordinator.add_partitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        keys,
        VERSION_OLD if is_client else VERSION_EPOCH_BUMP,
    ).map(lambda error: dict.fromkeys(keys, _told(error, version)))


def _refusal(broker: "Broker", key: TopicPartition, version: int) -> ErrorCode | None:
    topic, index = key
    if version < FIRST_VERSION_OF_BROKERS and topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # AddOffsetsToTxn is the way there
    image = broker.image.topics_by_name.get(topic)
    if image is None or not 0 <= index < len(image.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _told(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _topics(outcomes: Outcomes) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), error in outcomes.items():
        result = by_topic.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        result.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=int(error)
            )
        )
    return list(by_topic.values())
