"""Requests 83 to 87 and their answers as the values of `persister`, both ways.

Owns: that translation, for the broker that asks (`routing`) and the one that is asked (the API
files). Must not know: who asks whom, what happens to a state.

Each kind has the same shape: topics of partitions in, the same topics of results out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateBatch,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

W = TypeVar("W", InitializeState, ReadState, WriteState, DeleteState, ReadSummary)
R = TypeVar("R", Outcome, StateRead, SummaryRead)


@dataclass(frozen=True, slots=True)
class Kind(Generic[W, R]):
    """One of the five requests."""

    request_class: type[Any]
    topic_class: type[Any]
    response_class: type[Any]
    result_class: type[Any]
    to_partition: Callable[[W], Message]
    to_wanted: Callable[[SharePartitionKey, Any], W]
    to_row: Callable[[int, R], Message]
    to_result: Callable[[Any], R]
    failed: Callable[[ErrorCode, str | None], R]

    def request(self, group_id: str, wanted: Iterable[W]) -> Message:
        by_topic: dict[bytes, list[Message]] = {}
        for each in wanted:
            by_topic.setdefault(each.key.topic_id, []).append(self.to_partition(each))
        topics = [self.topic_class(topic_id=id_, partitions=rows) for id_, rows in by_topic.items()]
        request: Message = self.request_class(group_id=group_id, topics=topics)
        return request

    def wanted(self, request: Any) -> list[W]:
        return [
            self.to_wanted(SharePartitionKey(request.group_id, topic.topic_id, row.partition), row)
            for topic in request.topics
            for row in topic.partitions
        ]

    def response(self, wanted: Sequence[W], results: Sequence[R]) -> Message:
        by_topic: dict[bytes, list[Message]] = {}
        for each, result in zip(wanted, results, strict=True):
            rows = by_topic.setdefault(each.key.topic_id, [])
            rows.append(self.to_row(each.key.partition, result))
        answered = [
            self.result_class(topic_id=id_, partitions=rows) for id_, rows in by_topic.items()
        ]
        response: Message = self.response_class(results=answered)
        return response

    def results(self, response: Any, wanted: Sequence[W]) -> list[R]:
        """One for each that was wanted; what was not answered may be asked again."""
        found: dict[tuple[bytes, int], R] = {}
        if isinstance(response, self.response_class):
            for topic in response.results:
                for row in topic.partitions:
                    found[topic.topic_id, row.partition] = self.to_result(row)
        silence = self.failed(ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION.message)
        return [found.get((each.key.topic_id, each.key.partition), silence) for each in wanted]


def _outcome(row: Any) -> Outcome:
    return Outcome(ErrorCode.of(row.error_code), row.error_message)


def _outcome_row(row_class: type[Any]) -> Callable[[int, Outcome], Message]:
    def to_row(partition: int, outcome: Outcome) -> Message:
        row: Message = row_class(
            partition=partition,
            error_code=outcome.error_code,
            error_message=outcome.error_message,
        )
        return row

    return to_row


INITIALIZE: Kind[InitializeState, Outcome] = Kind(
    initialize_share_group_state.InitializeShareGroupStateRequest,
    initialize_share_group_state.InitializeStateData,
    initialize_share_group_state.InitializeShareGroupStateResponse,
    initialize_share_group_state.InitializeStateResult,
    lambda wanted: initialize_share_group_state.PartitionData(
        partition=wanted.key.partition,
        state_epoch=wanted.state_epoch,
        start_offset=wanted.start_offset,
    ),
    lambda key, row: InitializeState(key, row.state_epoch, row.start_offset),
    _outcome_row(initialize_share_group_state.PartitionResult),
    _outcome,
    Outcome,
)

DELETE: Kind[DeleteState, Outcome] = Kind(
    delete_share_group_state.DeleteShareGroupStateRequest,
    delete_share_group_state.DeleteStateData,
    delete_share_group_state.DeleteShareGroupStateResponse,
    delete_share_group_state.DeleteStateResult,
    lambda wanted: delete_share_group_state.PartitionData(partition=wanted.key.partition),
    lambda key, _: DeleteState(key),
    _outcome_row(delete_share_group_state.PartitionResult),
    _outcome,
    Outcome,
)


def _write_row(wanted: WriteState) -> Message:
    return write_share_group_state.PartitionData(
        partition=wanted.key.partition,
        state_epoch=wanted.state_epoch,
        leader_epoch=wanted.leader_epoch,
        start_offset=wanted.start_offset,
        delivery_complete_count=wanted.delivery_complete_count,
        state_batches=[
            write_share_group_state.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in wanted.state_batches
        ],
    )


def _batches(rows: Any) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in rows
    )


WRITE: Kind[WriteState, Outcome] = Kind(
    write_share_group_state.WriteShareGroupStateRequest,
    write_share_group_state.WriteStateData,
    write_share_group_state.WriteShareGroupStateResponse,
    write_share_group_state.WriteStateResult,
    _write_row,
    lambda key, row: WriteState(
        key,
        row.state_epoch,
        row.leader_epoch,
        row.start_offset,
        row.delivery_complete_count,
        _batches(row.state_batches),
    ),
    _outcome_row(write_share_group_state.PartitionResult),
    _outcome,
    Outcome,
)


def _read_row(partition: int, read: StateRead) -> Message:
    return read_share_group_state.PartitionResult(
        partition=partition,
        error_code=read.error_code,
        error_message=read.error_message,
        state_epoch=read.state_epoch,
        start_offset=read.start_offset,
        state_batches=[
            read_share_group_state.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in read.state_batches
        ],
    )


READ: Kind[ReadState, StateRead] = Kind(
    read_share_group_state.ReadShareGroupStateRequest,
    read_share_group_state.ReadStateData,
    read_share_group_state.ReadShareGroupStateResponse,
    read_share_group_state.ReadStateResult,
    lambda wanted: read_share_group_state.PartitionData(
        partition=wanted.key.partition, leader_epoch=wanted.leader_epoch
    ),
    lambda key, row: ReadState(key, row.leader_epoch),
    _read_row,
    lambda row: StateRead(
        ErrorCode.of(row.error_code),
        row.error_message,
        row.state_epoch,
        row.start_offset,
        _batches(row.state_batches),
    ),
    StateRead,
)

SUMMARY: Kind[ReadSummary, SummaryRead] = Kind(
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary.ReadStateSummaryData,
    read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary.ReadStateSummaryResult,
    lambda wanted: read_share_group_state_summary.PartitionData(
        partition=wanted.key.partition, leader_epoch=wanted.leader_epoch
    ),
    lambda key, row: ReadSummary(key, row.leader_epoch),
    lambda partition, read: read_share_group_state_summary.PartitionResult(
        partition=partition,
        error_code=read.error_code,
        error_message=read.error_message,
        state_epoch=read.state_epoch,
        leader_epoch=read.leader_epoch,
        start_offset=read.start_offset,
        delivery_complete_count=read.delivery_complete_count,
    ),
    lambda row: SummaryRead(
        ErrorCode.of(row.error_code),
        row.error_message,
        row.state_epoch,
        row.leader_epoch,
        row.start_offset,
        row.delivery_complete_count,
    ),
    SummaryRead,
)
