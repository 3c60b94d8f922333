"""How far a group is behind: the end of a partition and the time of a record, at its leader.

Owns: asking for ends of partitions and times of records. Must not know: groups, states.
Spec: KIP-1226: lag = end offset - start offset - records from there on that are done with.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.quorum.peers import Peers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.wire.kafka.record_batch import HEADER_BYTES, read_header

LATEST = -1
CONSUMER = -1
TIMEOUT_MS = 5_000

TopicPartition = tuple[str, int]
Ends = dict[TopicPartition, int | ErrorCode]


class EndOffsets(Protocol):
    def latest(self, partitions: Iterable[TopicPartition]) -> Promise[Ends]:
        """The offset that the next record of each will have, or why nobody knows."""
        ...

    def time_of(self, topic: str, index: int, offset: int) -> Promise[int | None]:
        """About the time of a record, by its leader; None if nobody says."""
        ...


class ClusterEndOffsets:
    """`EndOffsets` of a cluster: this broker's own partitions at once, others by request."""

    def __init__(
        self,
        me: int,
        partition_of: Callable[[str, int], Partition | None],
        peers: Peers,
        image_source: Callable[[], ClusterImage],
    ) -> None:
        self._me = me
        self._partition_of = partition_of
        self._peers = peers
        self._image_source = image_source

    def latest(self, partitions: Iterable[TopicPartition]) -> Promise[Ends]:
        ends: Ends = {}
        elsewhere: dict[int, dict[str, list[int]]] = {}
        for topic, index in partitions:
            leader = self._leader_of(topic, index)
            if leader == self._me:
                local = self._partition_of(topic, index)
                refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER if local is None else local.refusal
                ends[topic, index] = (
                    refusal if local is None or local.refusal else local.high_watermark
                )
            elif leader == NO_LEADER:
                ends[topic, index] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                elsewhere.setdefault(leader, {}).setdefault(topic, []).append(index)
        return self._ask(elsewhere, ends) if elsewhere else Promise.resolved(ends)

    def time_of(self, topic: str, index: int, offset: int) -> Promise[int | None]:
        """By reading its batch at the leader, however few bytes are asked for.

        Of a partition that this broker leads the answer is None: whoever asks has looked.
        """
        leader = self._leader_of(topic, index)
        if leader in (self._me, NO_LEADER):
            return Promise.resolved(None)
        answer: Promise[int | None] = Promise()
        topic_id = self._image_source().topics_by_name[topic].topic_id
        self._peers.send(
            leader,
            _fetch(topic_id, index, offset),
            lambda response, _: answer.resolve(_time_near(response, offset)),
        )
        return answer

    def _leader_of(self, topic: str, index: int) -> int:
        image = self._image_source().topics_by_name.get(topic)
        if image is None or index >= len(image.partitions):
            return NO_LEADER
        return image.partitions[index].leader

    def _ask(self, elsewhere: dict[int, dict[str, list[int]]], ends: Ends) -> Promise[Ends]:
        answer: Promise[Ends] = Promise()
        left = len(elsewhere)

        def on_answer(asked: dict[str, list[int]], response: Message | None) -> None:
            nonlocal left
            for topic, indexes in asked.items():
                ends.update(((topic, index), ErrorCode.NETWORK_EXCEPTION) for index in indexes)
            if isinstance(response, ListOffsetsResponse):
                for told in response.topics:
                    for row in told.partitions:
                        error = ErrorCode.of(row.error_code)
                        ends[told.name, row.partition_index] = error or row.offset
            left -= 1
            if left == 0:
                answer.resolve(ends)

        for node_id, topics in elsewhere.items():
            self._peers.send(
                node_id,
                _request(topics),
                lambda response, _, asked=topics: on_answer(asked, response),  # type: ignore[misc]
            )
        return answer


def _request(topics: dict[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                    for index in indexes
                ],
            )
            for topic, indexes in topics.items()
        ],
        timeout_ms=TIMEOUT_MS,
    )


def _fetch(topic_id: bytes, index: int, offset: int) -> FetchRequest:
    """One batch: the first of an answer comes whole, even if it is larger than asked for."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
    return FetchRequest(max_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])


def _time_near(response: Message | None, offset: int) -> int | None:
    if not isinstance(response, FetchResponse):
        return None
    for topic in response.responses:
        for partition in topic.partitions:
            records = partition.records
            if partition.error_code == ErrorCode.NONE and records and len(records) >= HEADER_BYTES:
                return read_header(records).time_near(offset)
    return None
