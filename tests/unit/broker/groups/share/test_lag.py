"""Ends of partitions: here at once, elsewhere by request, or why not."""

from types import SimpleNamespace

from tests.unit.broker.groups.stage import image_of, topic_image

from headrace.broker.groups.share.lag import ClusterEndOffsets
from headrace.quorum.peers import OnAnswer
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class Peer:
    def __init__(self, ends: dict[int, tuple[int, int]] | None) -> None:
        self._ends = ends
        self.asked: list[tuple[int, list[int]]] = []

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        assert isinstance(request, ListOffsetsRequest)
        (topic,) = request.topics
        self.asked.append((target_id, [each.partition_index for each in topic.partitions]))
        if self._ends is None:
            on_answer(None, True)
            return
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                error_code=self._ends[each.partition_index][0],
                offset=self._ends[each.partition_index][1],
            )
            for each in topic.partitions
        ]
        topics = [ListOffsetsTopicResponse(name=topic.name, partitions=rows)]
        on_answer(ListOffsetsResponse(topics=topics), False)


def ends_of(peer: Peer, *leaders: int) -> ClusterEndOffsets:
    topic = topic_image("t", len(leaders))
    topic.partitions = [
        type(each)(each.index, leader, 0, (1, 2), (1, 2))
        for each, leader in zip(topic.partitions, leaders, strict=True)
    ]
    image = image_of(topic)
    local = SimpleNamespace(refusal=ErrorCode.NONE, high_watermark=42)
    return ClusterEndOffsets(1, lambda _, __: local, peer, lambda: image)  # type: ignore[arg-type, return-value]


def test_here_elsewhere_and_nowhere() -> None:
    peer = Peer({1: (0, 7), 2: (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)})
    wanted = [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("gone", 0)]
    assert ends_of(peer, 1, 2, 2, -1).latest(wanted).value() == {
        ("t", 0): 42,
        ("t", 1): 7,
        ("t", 2): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ("t", 3): ErrorCode.LEADER_NOT_AVAILABLE,
        ("gone", 0): ErrorCode.LEADER_NOT_AVAILABLE,
    }
    assert peer.asked == [(2, [1, 2])]


def test_a_leader_that_is_silent() -> None:
    found = ends_of(Peer(None), 2, 3).latest([("t", 0), ("t", 1)]).value()
    assert set(found.values()) == {ErrorCode.NETWORK_EXCEPTION}


def test_an_end_of_zero_is_an_end() -> None:
    assert ends_of(Peer({0: (0, 0)}), 2).latest([("t", 0)]).value() == {("t", 0): 0}
