"""Writing markers to the partitions that this broker leads.

Owns: the control batch, the checks before it, and that committed offsets of a transaction become
visible with the marker. Must not know: the coordinator that asked.
Spec: Kafka's handleWriteTxnMarkersRequest and ProducerAppendInfo.appendEndTxnMarker; KIP-98,
KIP-1228 (strict epochs for transactions v2).

    control batch: transactional and control bit, no sequence, one record
      key version int16 = 0 | type int16 (0 abort, 1 commit)
      value version int16 = 0 | coordinator epoch int32
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.cluster.image import OFFSETS_TOPIC
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    encode_control_key,
    encode_control_value,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.end_txn_marker import EndTxnMarker
from headrace.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.wire.kafka.records import Record, build_batch

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def write_markers(
    broker: "Broker", request: WriteTxnMarkersRequest
) -> Promise[WriteTxnMarkersResponse]:
    """Every marker to every partition named; an error code for each."""
    answer: Promise[WriteTxnMarkersResponse] = Promise()
    response = WriteTxnMarkersResponse()
    waiting = 1

    def on_one(result: WritableTxnMarkerPartitionResult, written: Promise[ErrorCode]) -> None:
        nonlocal waiting
        result.error_code = int(written.value())
        waiting -= 1
        if waiting == 0:
            answer.resolve(response)

    pending: list[tuple[WritableTxnMarkerPartitionResult, Promise[ErrorCode]]] = []
    for marker in request.markers:
        told = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(told)
        for topic in marker.topics:
            results = WritableTxnMarkerTopicResult(name=topic.name)
            told.topics.append(results)
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                results.partitions.append(result)
                pending.append((result, _write(broker, topic.name, index, marker)))
    waiting += len(pending)
    for result, written in pending:
        written.then(lambda settled, result=result: on_one(result, settled))  # type: ignore[misc]
    waiting -= 1
    if waiting == 0:
        answer.resolve(response)
    return answer


def _write(
    broker: "Broker", topic: str, index: int, marker: WritableTxnMarker
) -> Promise[ErrorCode]:
    partition = broker.partitions.find(topic, index)
    if partition is None:
        return Promise.resolved(broker.partitions.missing(topic, index))
    if topic == OFFSETS_TOPIC and not broker.groups.commits.is_ready(index):
        # What is pending there is not known yet; whoever asks comes again.
        return Promise.resolved(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    written = write_marker(
        partition,
        marker.producer_id,
        marker.producer_epoch,
        is_commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        now_ms=broker.clock.now_ms(),
    )
    if topic != OFFSETS_TOPIC:
        return written

    def applied(error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.NONE:
            broker.groups.commits.end_transaction(
                index, marker.producer_id, is_commit=marker.transaction_result
            )
        return error

    return written.map(applied)


def write_marker(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    transaction_version: int,
    now_ms: int,
) -> Promise[ErrorCode]:
    """Append one marker, unless the partition knows a newer epoch of its writer."""
    partition.commit_staged_first()
    refused = partition.log.producers.check_marker(
        producer_id, producer_epoch, coordinator_epoch, transaction_version
    )
    if refused:
        return Promise.resolved(ErrorCode.of(refused))
    kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
    value = encode_control_value(EndTxnMarker(coordinator_epoch=coordinator_epoch))
    batch = build_batch(
        [Record(0, now_ms, encode_control_key(kind), value, [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    return partition.append(batch, now_ms)
